"""The parts of the demo, each on its own: scrape, plot, picture, verdict, feed, reader."""

import math
from dataclasses import replace

import msgpack
import pytest
from confluent_kafka import Producer
from rich.cells import cell_len
from rich.text import Text
from support.rendering import rendered
from support.topics import LogEnds
from support.waiting import DEADLINE_S, wait_until

from stream_apple.config.duration import DAY
from stream_apple.demo.clicks import clicks
from stream_apple.demo.paced_feed import MOST_AHEAD, Feed
from stream_apple.demo.picture import line, picture, summary
from stream_apple.demo.plot import Curve, Range, draw, range_of
from stream_apple.demo.predictions import PredictionReader
from stream_apple.demo.scrape import Losses, Reading, reading_of
from stream_apple.demo.state import CurvePoint, DemoReport, DemoResult, View
from stream_apple.errors import InputFileError

EXPOSITION = """\
# TYPE stream_apple_progressive_loss gauge
stream_apple_progressive_loss{partition="0",span="start"} 0.5
stream_apple_progressive_loss{partition="0",span="recent"} 0.25
stream_apple_progressive_loss{partition="1",span="start"} 9.0
# TYPE stream_apple_linear_progressive_loss gauge
stream_apple_linear_progressive_loss{partition="0",span="start"} 0.75
stream_apple_linear_progressive_loss{partition="0",span="recent"} NaN
# TYPE stream_apple_examples counter
stream_apple_examples_total{partition="0",outcome="learned"} 100.0
stream_apple_examples_total{partition="0",outcome="rejected"} 3.0
# TYPE stream_apple_parents gauge
stream_apple_parents{partition="0",degree="0"} 1.0
stream_apple_parents{partition="0",degree="2"} 7.0
stream_apple_parents{partition="0",degree="1"} 4.0
stream_apple_learned_examples{partition="0"} 97.0
stream_apple_lag_records{partition="0"} 12.0
stream_apple_epoch{partition="0"} 20000.0
"""

READING = Reading(97, 3, 12, 20000, (4, 7), Losses(0.5, 0.75), Losses(0.25, 0.6))


class TestScrape:
    """Prometheus's text, as one partition's reading."""

    def test_reads_one_partition(self) -> None:
        """Every number is that of partition 0; degrees are in order, the constant is left out."""
        found = reading_of(EXPOSITION)
        assert found._replace(recent=READING.recent) == READING
        assert found.recent.apple == 0.25
        assert math.isnan(found.recent.linear)

    def test_at_first_it_has_learned_nothing(self) -> None:
        """Before the first record there are no losses and no epoch."""
        found = reading_of("")
        assert (found.learned, found.epoch, found.parents) == (0, -1, ())
        assert math.isnan(found.whole.apple)


class TestPlot:
    """Dots where the curves are."""

    def test_a_flat_line_fills_one_row_of_dots(self) -> None:
        """At the top of the range the first line has the highest dots, at the bottom the last line the lowest."""
        for value, line_number, dots in ((1.0, 0, 0x09), (0.0, -1, 0xC0)):
            lines = draw([Curve([(0, value), (1, value)], "")], Range(0, 1), 10, 3)
            assert [len(text) for text in lines] == [10] * 3
            assert lines[line_number].plain == chr(0x2800 + dots) * 10
            assert sum(text.plain.count(chr(0x2800)) for text in lines) == 20

    def test_a_steep_line_has_no_gap(self) -> None:
        """A jump from bottom to top within a column leaves a dot in every row."""
        lines = draw([Curve([(0, 0), (0.01, 1)], "")], Range(0, 1), 5, 4)
        assert [text.plain[0] for text in lines] == [chr(0x2800 + 0x47)] * 4

    def test_the_later_curve_has_the_colour(self) -> None:
        """Where curves meet, the last one is seen."""
        curves = [Curve([(0, 0.5), (1, 0.5)], "yellow"), Curve([(0, 0.5), (0.4, 0.5)], "green")]
        (text,) = draw(curves, Range(0, 1), 10, 1)
        styles = [str(span.style) for span in text.spans]
        assert styles[0] == "green"
        assert styles[-1] == "yellow"

    def test_the_range_holds_every_point(self) -> None:
        """It is on the grid, and wide enough even if all points are equal."""
        assert range_of([Curve([(0, 0.61), (1, 0.69)], ""), Curve([(0, 0.47)], "")]) == pytest.approx((0.45, 0.7))
        low, high = range_of([Curve([(0, 0.5)], "")])
        assert low < 0.5 < high


class TestScreen:
    """What people see."""

    VIEW = View(
        doing="learning",
        total=200_000,
        answered=50_000,
        per_second=12_000.0,
        epochs=2,
        reading=READING,
        curve=tuple(CurvePoint(5000 * i, 0.65 - 0.02 * i, 0.66) for i in range(1, 11)),
        address="http://127.0.0.1:65535",
    )

    @pytest.mark.parametrize("width", [80, 100])
    def test_the_picture_fits_a_terminal(self, width: int) -> None:
        """No more than 24 lines, none wider than the terminal, with the numbers of the reading."""
        lines = rendered(picture(self.VIEW, width), width)
        assert len(lines) <= 24
        assert max(map(cell_len, lines)) <= width
        text = "\n".join(lines)
        for part in ("50,000 of 200,000", "12,000/s", "lag 12", "4 features, 7 pairs", "0.5000", "0.7500", "day 8"):
            assert part in text

    def test_a_worker_that_has_measured_no_loss_yet(self) -> None:
        """Its first metrics may be read after its first examples are counted and before their losses are."""
        unmeasured = CurvePoint(100, math.nan, math.nan)
        full = rendered(picture(self.VIEW, 80), 80)
        assert rendered(picture(replace(self.VIEW, curve=(unmeasured, *self.VIEW.curve)), 80), 80) == full
        assert len(rendered(picture(replace(self.VIEW, curve=(unmeasured,)), 80), 80)) == len(full)

    def test_before_the_first_loss_it_says_what_is_done(self) -> None:
        """There is no empty plot."""
        text = "\n".join(rendered(picture(View(doing="compiling", total=100), 80), 80))
        assert "compiling ..." in text
        assert "day 1" not in text

    def test_a_line_has_the_same_facts(self) -> None:
        """One line, both losses."""
        found = line(self.VIEW)
        assert "\n" not in found
        for part in ("50,000 of 200,000", "12,000/s", "apple 0.2500", "linear 0.6000", "parents  11"):
            assert part in found

    def test_the_summary_compares_the_losses(self) -> None:
        """A third less loss is called so."""
        found = summary(DemoReport(DemoResult(1000, 1000, 0.4, 0.6, 7, 11), 0, READING))
        assert isinstance(found, Text)
        assert "33% less" in found.plain
        assert max(map(len, found.plain.splitlines()[6:])) <= 80


class TestFaults:
    """A run that did not keep its promise is told so."""

    GOOD = DemoReport(DemoResult(97, 97, 0.4, 0.6, 7, 11), 0, READING)

    def test_a_good_run_has_none(self) -> None:
        """All learned, all answered once, and apple below linear."""
        assert self.GOOD.broken_promises() == []

    @pytest.mark.parametrize(
        ("changed", "words"),
        [
            (GOOD._replace(result=GOOD.result._replace(predictions=96)), "96 answered"),
            (GOOD._replace(repeated=2), "2 answers too many"),
            (GOOD._replace(reading=READING._replace(learned=90)), "90 learned"),
            (GOOD._replace(result=GOOD.result._replace(progressive_loss=0.6)), "below the linear"),
            (GOOD._replace(result=GOOD.result._replace(progressive_loss=math.nan)), "below the linear"),
        ],
    )
    def test_each_broken_promise_is_found(self, changed: DemoReport, words: str) -> None:
        """One sentence, which says what is wrong."""
        (found,) = changed.broken_promises()
        assert words in found


class TestFeed:
    """Examples on their way to the cluster."""

    def test_stops_when_the_cluster_would_be_full(self, mock_cluster: str) -> None:
        """Without answers it sends what there is room for; each answer makes room for one more."""
        Producer({"bootstrap.servers": mock_cluster, "log_level": 0}).list_topics("examples", timeout=DEADLINE_S)
        endless, ends = clicks(10 * MOST_AHEAD, 1, 20_000 * DAY, DAY), LogEnds(mock_cluster)
        with Feed(mock_cluster, "examples", endless, per_second=1_000_000) as feed:
            wait_until(lambda: ends.of("examples") >= MOST_AHEAD, "as many as there is room for")
            assert feed.sent == MOST_AHEAD
            feed.answered(5)
            wait_until(lambda: ends.of("examples") >= MOST_AHEAD + 5, "one more for each answer")
            assert feed.sent == MOST_AHEAD + 5

    def test_what_goes_wrong_is_raised_where_it_is_watched(self, mock_cluster: str) -> None:
        """An error of the thread does not stay there."""
        Producer({"bootstrap.servers": mock_cluster, "log_level": 0}).list_topics("examples", timeout=DEADLINE_S)
        (example,) = clicks(1, 1, 20_000 * DAY, DAY)
        huge = example._replace(features={"name" * 1_000_000: 1.0})
        with Feed(mock_cluster, "examples", [huge], per_second=1000) as feed:

            def watched() -> bool:
                feed.answered(0)
                return False

            with pytest.raises(InputFileError, match="was refused"):
                wait_until(watched, "the failure")


class TestPredictionReader:
    """Answers, as a user reads them."""

    def test_counts_each_example_once(self, mock_cluster: str) -> None:
        """Two predictions of one example are one answer and one repetition, in whatever partition they are."""
        producer = Producer({"bootstrap.servers": mock_cluster, "log_level": 0})
        count = len(producer.list_topics("predictions", timeout=DEADLINE_S).topics["predictions"].partitions)
        for partition, offset in ((0, 0), (0, 1), (1, 0), (0, 1)):
            value = msgpack.packb({"topic": "examples", "partition": partition, "offset": offset})
            producer.produce("predictions", value, partition=offset)
        assert producer.flush(DEADLINE_S) == 0
        with PredictionReader(mock_cluster, "predictions", count) as reader:
            reader.read_to_end()
            assert (reader.answered, reader.repeated) == (3, 1)
