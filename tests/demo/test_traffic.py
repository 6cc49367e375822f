"""Live traffic: the same clicks without an end, stamped when they are sent, and the command that sends them."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import islice

import pytest
from click.testing import CliRunner
from support.clock import Clock
from support.topics import read_all
from support.waiting import DEADLINE_S, wait_until

from stream_apple.cli import main
from stream_apple.config.duration import DAY
from stream_apple.core.batch import Limits
from stream_apple.core.codec.decode import Decoder
from stream_apple.core.codec.example import Example, encode_example
from stream_apple.core.codec.rejects import Reason
from stream_apple.demo.clicks import FIELDS
from stream_apple.demo.traffic import BROKEN, now_ms, traffic

START_MS = 20_000 * DAY


def hours(examples: list[Example]) -> Counter[str]:
    """How often each hour occurs."""
    return Counter(name for example in examples for name in example.features if name.startswith("hour="))


class TestTraffic:
    """What is made."""

    def test_timestamps_are_the_time_of_asking(self) -> None:
        """An example carries the clock's reading at which it was taken, whenever it was drawn."""
        clock = Clock(START_MS)
        stream = traffic(1, DAY, 0.0, clock)
        for later in (0, 5, 1000, 70_000):
            clock.now = START_MS + later
            assert next(stream).timestamp_ms == START_MS + later

    def test_is_the_same_for_a_seed(self) -> None:
        """At the same times, the seed alone decides."""
        streams = [list(islice(traffic(seed, DAY, 0.1, Clock(START_MS)), 3000)) for seed in (1, 1, 2)]
        assert repr(streams[0]) == repr(streams[1])
        assert repr(streams[0]) != repr(streams[2])

    def test_a_day_passes_in_the_time_asked_for(self) -> None:
        """Half a day of visitors' hours later after half that time, and every hour is seen within it."""
        clock = Clock(START_MS)
        day_ms = 600_000
        stream = traffic(1, day_ms, 0.0, clock)
        begin = list(islice(stream, 2048))
        clock.now += day_ms // 2
        later = list(islice(stream, 2048))
        shifted = {f"hour={(int(hour.removeprefix('hour=')) + 12) % 24}" for hour in hours(begin)}
        assert set(hours(later)) == shifted
        seen: Counter[str] = Counter()
        for step in range(24):
            clock.now = START_MS + step * day_ms // 24
            seen += hours(list(islice(stream, 256)))
        assert len(seen) == len(FIELDS["hour"])

    def test_broken_examples_have_their_share_and_reasons(self) -> None:
        """The share that was asked for is refused, for as many reasons as there are kinds of it; all else is fine."""
        examples = list(islice(traffic(3, DAY, 0.05, Clock(START_MS)), 20_000))
        decoder = Decoder(Limits(100, 10_000, 1e6, -1e9, 1e9, binary=True))
        reasons = decoder.decode([encode_example(example) for example in examples]).reasons
        refused = Counter(Reason(code) for code in reasons[reasons != 0].tolist())
        assert 0.04 < refused.total() / len(examples) < 0.06
        assert len(refused) == len(BROKEN)
        assert not decoder.decode([encode_example(one) for one in islice(traffic(3, DAY, 0.0), 5000)]).reasons.any()


class TestCommand:
    """`stream-apple generate`."""

    def test_sends_examples_of_now(self, mock_examples: str) -> None:
        """So many as asked for, over all partitions, at the pace asked for, with timestamps of when they were sent."""
        before, started = now_ms(), time.monotonic()
        settings = {"STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS": mock_examples}
        result = CliRunner().invoke(main, ["generate", "--limit", "600", "--rate", "500"], env=settings)
        assert result.exit_code == 0, result.output
        assert "sent 600 examples" in result.output
        assert time.monotonic() - started > 599 / 500
        messages = read_all(mock_examples, "examples", 4)
        assert len(messages) == 600
        assert {message.partition() for message in messages} == {0, 1, 2, 3}
        times = sorted(message.timestamp()[1] for message in messages)
        assert before <= times[0]
        assert times[-1] <= now_ms()
        assert times[-1] - times[0] >= 0.9 * 1000 * 599 / 500

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_signal_ends_it_well(self, mock_examples: str, number: signal.Signals) -> None:
        """It runs until it is told to stop; then what was sent is there, and the exit code is 0."""
        process = subprocess.Popen(
            [sys.executable, "-m", "stream_apple", "generate", "--rate", "200"],
            env={**os.environ, "STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS": mock_examples},
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            wait_until(lambda: len(read_all(mock_examples, "examples", 4)) >= 50, "50 messages")
            process.send_signal(number)
            _, said = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 0, said
        count = int(said.rpartition("sent ")[2].partition(" ")[0].replace(",", ""))
        assert count >= 50
        assert len(read_all(mock_examples, "examples", 4)) == count

    @pytest.mark.parametrize(
        ("option", "value"), [("--rate", "0"), ("--day", "0s"), ("--day", "soon"), ("--broken", "1.5")]
    )
    def test_an_impossible_option_is_a_usage_error(self, option: str, value: str) -> None:
        """Nothing is sent, and the option is named."""
        result = CliRunner().invoke(main, ["generate", option, value])
        assert result.exit_code == 2
        assert option in result.output
