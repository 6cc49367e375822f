"""Live traffic: the same clicks without an end, stamped when they are sent, and the command that sends them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import islice

import msgpack
import pytest
from click.testing import CliRunner
from support.canned_replica import CannedReplica
from support.clock import Clock
from support.kafka.mock_cluster import make_mock_topics
from support.topics import read_all
from support.waiting import DEADLINE_S, wait_until

from stream_apple.cli import main
from stream_apple.config.duration import DAY
from stream_apple.core.batch import Limits
from stream_apple.demo.clicks import FIELDS
from stream_apple.demo.traffic import BROKEN, now_ms, traffic
from stream_apple.errors import ConfigurationError
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.example import Example, encode_example
from stream_apple.records.message.reasons import Reason

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

    def test_the_shortest_day_has_clicks_and_a_shorter_one_is_refused(self, mock_examples: str) -> None:
        """The visitors' time since 1970 was no number of 64 bits then: a traceback."""
        settings = {"STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS": mock_examples}
        found = {
            day: CliRunner().invoke(main, ["generate", "--limit", "3", "--day", day], env=settings)
            for day in ("100ms", "365d", "1ms")
        }
        assert [each.exit_code for each in found.values()] == [0, 0, 2]
        assert "expected a duration from 100ms to 365d, found '1ms'" in found["1ms"].output

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

    def test_a_site_asks_and_sends_what_came_of_it(self, canned_replica: CannedReplica, mock_cluster: str) -> None:
        """With --ask: each visit is asked about and sent without a label; an outcome of it comes later."""
        make_mock_topics(mock_cluster, "impressions", "outcomes")
        canned_replica.answer = (200, b'{"predictions": [{"prediction": -0.5}]}')
        settings = {"STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS": mock_cluster, "STREAM_APPLE_JOIN__WAIT": "2s"}
        options = ["--limit", "300", "--rate", "1000", "--ask", canned_replica.address]
        result = CliRunner().invoke(main, ["generate", *options], env=settings)
        assert result.exit_code == 0, result.output
        assert "sent 300 impressions" in result.output
        impressions, outcomes = (read_all(mock_cluster, topic, 4) for topic in ("impressions", "outcomes"))
        shown = {message.key(): (msgpack.unpackb(message.value() or b""), message) for message in impressions}
        assert len(impressions) == len(shown) == 300
        asked = [json.loads(body)["instances"][0] for _, body in canned_replica.asked]
        assert {one["key"]: one["features"] for one in asked} == {
            value["id"]: value["features"] for value, _ in shown.values()
        }
        assert not any("label" in value for value, _ in shown.values())
        assert 30 < len(outcomes) < 270
        for outcome in outcomes:
            value, impression = shown[outcome.key()]
            assert msgpack.unpackb(outcome.value() or b"") == {"id": value["id"], "label": 1.0, "features": {}}
            assert outcome.partition() == impression.partition()
            assert 0 <= outcome.timestamp()[1] - impression.timestamp()[1] <= 2000

    def test_a_site_ends_with_what_its_outcomes_meet(self, canned_replica: CannedReplica, mock_cluster: str) -> None:
        """A topic that is not there is told before anything is asked; so is an answer that makes no sense."""
        make_mock_topics(mock_cluster, "impressions", "outcomes")
        settings = {"STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS": mock_cluster}
        canned_replica.answer = (404, b'{"error": "expected the model x"}')
        result = CliRunner().invoke(main, ["generate", "--ask", canned_replica.address], env=settings)
        assert result.exit_code == ConfigurationError.exit_code
        assert "expected the model x" in result.output
        missing = settings | {"STREAM_APPLE_JOIN__OUTCOMES": "not-there"}
        result = CliRunner().invoke(main, ["generate", "--ask", canned_replica.address], env=missing)
        assert result.exit_code == ConfigurationError.exit_code
        assert "not-there" in result.output
        assert len(canned_replica.asked) == 1

    def test_a_site_does_not_wait_for_clicks_that_are_to_come(
        self, canned_replica: CannedReplica, mock_cluster: str
    ) -> None:
        """Told to stop, it ends at once, though clicks of the last visits may be an hour away."""
        make_mock_topics(mock_cluster, "impressions", "outcomes")
        canned_replica.answer = (503, b"")
        process = subprocess.Popen(
            [sys.executable, "-m", "stream_apple", "generate", "--limit", "100", "--ask", canned_replica.address],
            env={**os.environ, "STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS": mock_cluster},
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            wait_until(lambda: len(read_all(mock_cluster, "impressions", 4)) == 100, "100 impressions")
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 0, said
        assert "sent 100 impressions" in said

    def test_a_site_has_nothing_broken(self) -> None:
        """A server refuses it: the two options exclude each other."""
        result = CliRunner().invoke(main, ["generate", "--ask", "http://localhost:1", "--broken", "0.1"])
        assert result.exit_code == 2
        assert "--broken" in result.output

    @pytest.mark.parametrize(
        ("option", "value"),
        [
            ("--rate", "0"),
            ("--day", "0s"),
            ("--day", "soon"),
            ("--broken", "1.5"),
            ("--ask", "serve:8080"),
            ("--ask", "https://serve"),
            ("--ask", "http://serve:port"),
        ],
    )
    def test_an_impossible_option_is_a_usage_error(self, option: str, value: str) -> None:
        """Nothing is sent, and the option is named."""
        result = CliRunner().invoke(main, ["generate", option, value])
        assert result.exit_code == 2
        assert option in result.output
