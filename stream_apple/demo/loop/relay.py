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
from typing import NamedTuple, Self

from stream_apple.errors import BrokerError

_METADATA, _OFFSET_COMMIT, _FIND_COORDINATOR, _END_TXN, _TXN_OFFSET_COMMIT = 3, 8, 10, 26, 28
_OFFSET_COMMIT_VERSION = 7  # the last one before lengths became variable
_UNDERSTOOD = {_END_TXN: (0, 1), _TXN_OFFSET_COMMIT: (3,)}
_OURS = -1  # correlates our request with its answer; clients count from 1
_HEADER = struct.Struct(">hhi")
_START_S = 10.0


class Asked(NamedTuple):
    """Holds a request whose answer is still to come, without its header."""

    api: int
    body: bytes


class TransactionOffsets(NamedTuple):
    """Holds the offsets that a transaction commits, and the member that sent them; texts are bytes, or None."""

    transactional_id: bytes
    group: bytes
    generation: int
    member: bytes
    instance: bytes | None
    topics: list[tuple[bytes, list[tuple[int, int, int, bytes | None]]]]
    """Each with index, offset, leader epoch and metadata of its partitions."""


class OffsetsRelay:
    """Relays while its context lasts.

    bootstrap  the address of the cluster's one broker; as an attribute, that of the relay
    """

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.partition(":")
        self._host, self._port = host, int(port)
        self._pending: dict[bytes, TransactionOffsets] = {}
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
        asked: dict[int, Asked] = {}
        both = [
            asyncio.ensure_future(self._pass_questions(reader, questions, asked)),
            asyncio.ensure_future(self._pass_answers(answers, writer, questions, asked)),
        ]
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # closed: what is on the way is asked again on another connection
        except (ValueError, IndexError, struct.error) as error:
            self._failure = error
        finally:
            for task in both:
                task.cancel()
            writer.close()
            questions.close()

    async def _pass_questions(
        self, reader: asyncio.StreamReader, questions: asyncio.StreamWriter, asked: dict[int, Asked]
    ) -> None:
        while True:
            frame = await _frame(reader)
            api, version, number = _HEADER.unpack_from(frame)
            if api in _UNDERSTOOD and version not in _UNDERSTOOD[api]:
                raise ValueError(f"expected version {_UNDERSTOOD[api]} of request {api}, found {version}")
            if api in (_METADATA, _FIND_COORDINATOR) or api in _UNDERSTOOD:
                (length,) = struct.unpack_from(">h", frame, _HEADER.size)
                asked[number] = Asked(api, frame[_HEADER.size + 2 + max(length, 0) :])
            questions.write(_framed(frame))
            await questions.drain()

    async def _pass_answers(
        self,
        answers: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        questions: asyncio.StreamWriter,
        asked: dict[int, Asked],
    ) -> None:
        while True:
            frame = await _frame(answers)
            (number,) = struct.unpack_from(">i", frame)
            if number == _OURS:
                continue  # refused while the group is in motion: the next commit says it again
            question = asked.pop(number, None)
            if question is not None:
                frame = self._answered(question, frame, questions)
            writer.write(_framed(frame))
            await writer.drain()

    def _answered(self, question: Asked, answer: bytes, questions: asyncio.StreamWriter) -> bytes:
        """Return what the worker is told, having done what follows from the answer."""
        if question.api in (_METADATA, _FIND_COORDINATOR):
            return answer.replace(self._theirs, self._instead)  # or it would go around the relay from now on
        if question.api == _TXN_OFFSET_COMMIT:
            offsets = parse_offsets(question.body)
            self._pending[offsets.transactional_id] = offsets
            return answer
        (length,) = struct.unpack_from(">h", question.body)
        _, error = struct.unpack_from(">ih", answer, 4)
        committed = question.body[-1]
        found = self._pending.pop(question.body[2 : 2 + length], None)
        if committed and not error and found is not None:
            questions.write(_framed(offset_commit(found)))
        return answer


def parse_offsets(body: bytes) -> TransactionOffsets:
    """Return what the body of a `TxnOffsetCommit` of version 3 says; ValueError or IndexError if it is none."""
    fields = _Fields(body)
    fields.tags()  # of the header
    name, group = fields.text() or b"", fields.text() or b""
    fields.number(">q")  # the producer's id
    fields.number(">h")  # and its epoch
    generation, member, instance = fields.number(">i"), fields.text() or b"", fields.text()
    topics = []
    for _ in range(fields.count()):
        topic, partitions = fields.text() or b"", []
        for _ in range(fields.count()):
            partitions.append((fields.number(">i"), fields.number(">q"), fields.number(">i"), fields.text()))
            fields.tags()
        fields.tags()
        topics.append((topic, partitions))
    return TransactionOffsets(name, group, generation, member, instance, topics)


def offset_commit(offsets: TransactionOffsets) -> bytes:
    """Return the request that commits these offsets outside of transactions."""

    def text(value: bytes | None) -> bytes:
        return struct.pack(">h", -1) if value is None else struct.pack(">h", len(value)) + value

    parts = [_HEADER.pack(_OFFSET_COMMIT, _OFFSET_COMMIT_VERSION, _OURS), text(b"relay"), text(offsets.group)]
    parts += [struct.pack(">i", offsets.generation), text(offsets.member), text(offsets.instance)]
    parts.append(struct.pack(">i", len(offsets.topics)))
    for topic, partitions in offsets.topics:
        parts += [text(topic), struct.pack(">i", len(partitions))]
        parts += [struct.pack(">iqi", *place) + text(metadata) for *place, metadata in partitions]
    return b"".join(parts)


class _Fields:
    """Reads one field after the other."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._body, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._body[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def count(self) -> int:
        return self.varint() - 1

    def text(self) -> bytes | None:
        length = self.count()
        if length < 0:
            return None
        self._at += length
        return self._body[self._at - length : self._at]

    def tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self._at += self.varint()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(length)


def _framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame
