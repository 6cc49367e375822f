"""The thread that renders replies: one at a time, and no more than its share of a core allows."""

import asyncio
import threading
import time

import pytest
from starlette.exceptions import HTTPException
from starlette.responses import Response
from support.clock import Clock

from stream_apple.http import render_thread
from stream_apple.http.application import KeptReplies
from stream_apple.http.render_thread import RenderThread
from stream_apple.http.work_share import WorkShare


def made(clock: Clock[float], share: WorkShare | None = None) -> RenderThread:
    """A thread that may work as much as it likes, by default."""
    return RenderThread(share or WorkShare(1.0, 60.0), KeptReplies(clock))


def test_who_asks_the_same_has_the_same_reply_for_a_moment() -> None:
    """Many viewers cost as much as one."""
    clock, rendered = Clock(100.0), []

    def render() -> Response:
        rendered.append(1)
        return Response()

    async def ask() -> None:
        thread = made(clock)
        first = await thread.reply("x", render)
        assert await thread.reply("x", render) is first
        assert await thread.reply("y", render) is not first
        clock.now += 10
        assert await thread.reply("x", render) is not first

    asyncio.run(ask())
    assert len(rendered) == 3


def test_it_rests_for_what_it_has_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its share."""
    used, rests, share = [0.0], [], WorkShare(0.1, 2.0, lambda: used[0], Clock(0.0))
    rested = threading.Semaphore(0)

    def rest(seconds: float) -> None:
        rests.append(seconds)
        rested.release()

    monkeypatch.setattr(time, "sleep", rest)

    def render() -> Response:
        used[0] += 1.5
        return Response()

    async def ask() -> None:
        thread = made(Clock(0.0), share)
        for number in range(2):
            await thread.reply(number, render)
            assert rested.acquire(timeout=10)

    asyncio.run(ask())
    assert rests == pytest.approx([0.0, 10.0])


def test_an_error_is_the_askers() -> None:
    """And the next one is answered."""

    def fail() -> Response:
        raise HTTPException(404, "expected something, found nothing")

    async def ask() -> None:
        thread = made(Clock(0.0))
        with pytest.raises(HTTPException, match="found nothing"):
            await thread.reply("x", fail)
        await thread.reply("x", Response)

    asyncio.run(ask())


@pytest.mark.parametrize(("limit", "value", "others"), [("MOST_WAITING", 1, 2), ("LONGEST_WAIT_S", 0.05, 1)])
def test_who_would_wait_for_too_long_is_refused(
    limit: str, value: float, others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503, where too many wait, and after a while."""
    monkeypatch.setattr(render_thread, limit, value)
    free = threading.Event()

    def slow() -> Response:
        free.wait(10)
        return Response()

    async def ask() -> None:
        thread = made(Clock(0.0))
        tasks = []
        for number in range(others):
            tasks.append(asyncio.create_task(thread.reply(number, slow)))
            await asyncio.sleep(0.02)  # the first is rendered, and the second waits
        with pytest.raises(HTTPException) as refused:
            await thread.reply("x", Response)
        assert (refused.value.status_code, refused.value.headers) == (503, {"Retry-After": "1"})
        free.set()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(ask())
