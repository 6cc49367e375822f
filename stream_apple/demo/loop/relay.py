"""Stands between the worker and the embedded cluster, which forgets the offsets that transactions commit.

No replica could follow a group there: what it has committed is all that a replica goes by. So this relay passes on what
the worker and the cluster say to each other, byte by byte, and remembers the offsets in its `TxnOffsetCommit`. When the
transaction has been committed, and not before, it commits them under the worker's own membership with `OffsetCommit`,
which the cluster does keep. The worker knows nothing of it.

Kafka's protocol: https://kafka.apache.org/protocol; the versions are those that librdkafka chooses with this cluster.
"""

import asyncio
import struct
import threading
from typing import Self

from stream_apple.errors import BrokerError

_METADATA, _OFFSET_COMMIT, _FIND_COORDINATOR, _END_TXN, _TXN_OFFSET_COMMIT = 3, 8, 10, 26, 28
_OFFSET_COMMIT_VERSION = 8  # what follows its group is, byte for byte, what follows the producer in `TxnOffsetCommit`
_UNDERSTOOD = {_END_TXN: (0, 1), _TXN_OFFSET_COMMIT: (3,)}
_ASKED_ABOUT = {_METADATA, _FIND_COORDINATOR, *_UNDERSTOOD}
_OURS = -1  # correlates our request with its answer; clients count from 1
_HEADER = struct.Struct(">hhi")
_PRODUCER = struct.Struct(">qh")  # id and epoch
_START_S = 10.0


class OffsetsRelay:
    """Relays while its context lasts.

    bootstrap  the address of the cluster's one broker; as an attribute, that of the relay
    """

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.partition(":")
        self._host, self._port = host, int(port)
        self._pending: dict[bytes, bytes] = {}  # transactional id -> the request that commits its offsets
        self._failure: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self.bootstrap = ""

    def check(self) -> None:
        """Raise BrokerError if the worker has said what the relay does not understand."""
        if self._failure is not None:
            raise BrokerError(f"between the worker and the cluster: {self._failure}") from self._failure

    def __enter__(self) -> Self:
        self._thread.start()
        start = asyncio.start_server(self._accept, self._host, 0)
        self._server = asyncio.run_coroutine_threadsafe(start, self._loop).result(_START_S)
        port = self._server.sockets[0].getsockname()[1]
        self._theirs = self._host.encode() + struct.pack(">i", self._port)
        self._instead = self._host.encode() + struct.pack(">i", port)
        self.bootstrap = f"{self._host}:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(_START_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        if self._server is not None:
            self._server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one connection, until one of the two ends it."""
        try:
            answers, questions = await asyncio.open_connection(self._host, self._port)
        except ConnectionError:
            writer.close()
            return
        asked: dict[int, tuple[int, bytes]] = {}
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_questions(reader, questions, asked))
                both.create_task(self._pass_answers(answers, writer, questions, asked))
        except* (asyncio.IncompleteReadError, ConnectionError):
            pass  # closed: what is on the way is asked again on another connection
        except* (ValueError, IndexError, struct.error) as errors:
            self._failure = errors.exceptions[0]
        finally:
            writer.close()
            questions.close()

    async def _pass_questions(
        self, reader: asyncio.StreamReader, questions: asyncio.StreamWriter, asked: dict[int, tuple[int, bytes]]
    ) -> None:
        """Pass on requests; put those whose answers matter into `asked`: number -> kind, and body without a header."""
        while True:
            frame = await _frame(reader)
            api, version, number = _HEADER.unpack_from(frame)
            if api in _UNDERSTOOD and version not in _UNDERSTOOD[api]:
                raise ValueError(f"expected version {_UNDERSTOOD[api]} of request {api}, found {version}")
            if api in _ASKED_ABOUT:
                (length,) = struct.unpack_from(">h", frame, _HEADER.size)
                asked[number] = api, frame[_HEADER.size + 2 + max(length, 0) :]
            questions.write(_framed(frame))
            await questions.drain()

    async def _pass_answers(
        self,
        answers: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        questions: asyncio.StreamWriter,
        asked: dict[int, tuple[int, bytes]],
    ) -> None:
        while True:
            frame = await _frame(answers)
            (number,) = struct.unpack_from(">i", frame)
            if number == _OURS:
                continue  # refused while the group is in motion: the next commit says it again
            if number in asked:
                frame = self._answered(*asked.pop(number), frame, questions)
            writer.write(_framed(frame))
            await writer.drain()

    def _answered(self, api: int, question: bytes, answer: bytes, questions: asyncio.StreamWriter) -> bytes:
        """Return what the worker is told, having done what follows from the answer."""
        if api == _TXN_OFFSET_COMMIT:
            transaction, commit = offset_commit(question)
            self._pending[transaction] = commit
        elif api == _END_TXN:
            (length,) = struct.unpack_from(">h", question)
            _, error = struct.unpack_from(">ih", answer, 4)
            commit = self._pending.pop(question[2 : 2 + length], b"")
            if question[-1] and not error and commit:
                questions.write(_framed(commit))
        else:
            return answer.replace(self._theirs, self._instead)  # or it would go around the relay from now on
        return answer


def offset_commit(body: bytes) -> tuple[bytes, bytes]:
    """Return the transactional id in a `TxnOffsetCommit` of version 3, and the request that commits its offsets.

    ValueError or IndexError for the body of another request.
    """
    group = 1 + body[1]  # a header without tags, then texts: the first byte of each is its length, its own included
    producer = group + body[group]
    rest = producer + _PRODUCER.size
    if len(body) <= rest or max(body[1], body[group]) >= 0x80:
        raise ValueError(f"expected transaction, group, producer and offsets, found {body[:100]!r}")
    header = _HEADER.pack(_OFFSET_COMMIT, _OFFSET_COMMIT_VERSION, _OURS) + struct.pack(">h", -1) + b"\0"
    return body[2:group], header + body[group:producer] + body[rest:]


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(length)


def _framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame
