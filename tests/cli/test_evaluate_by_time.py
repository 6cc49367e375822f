"""`stream-apple evaluate --epoch-length`: the predictions of a worker that gets what `produce` sends of the files."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.topics import read_all

from stream_apple.app.model_factories import model_factory, settings_of
from stream_apple.cli import main
from stream_apple.config import Config
from stream_apple.core.event_time import LONE
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.prediction_formats import decode_prediction
from stream_apple.records.message.reasons import Reason
from stream_apple.stream.model.partition_model import BatchResult, PartitionModel
from stream_apple.stream.positions.lineage import Lineage

START_S = 1_700_000_000  # 800 s after a full hour
HOUR_S = 3600
DAY_S = 24 * HOUR_S


def run(command: str, *arguments: object) -> Result:
    """Run one of the commands in this process, to its good end."""
    result = CliRunner().invoke(main, [command, *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result


def fed_worker(bootstrap: str) -> tuple[PartitionModel, BatchResult]:
    """The model of a worker with the default settings that got the topic's first partition, and what it made of it."""
    settings = settings_of(Config())
    model = model_factory("examples", settings, Decoder(settings.limits))(0, Lineage(0, "0123456789abcdef"))
    # A message of the client has all of the port's methods; its types say less.
    records: Any = read_all(bootstrap, "examples")
    return model, model.process(records)


def predictions_of(result: BatchResult) -> list[float]:
    """In the order learned."""
    return [cast("float", decode_prediction(message)["prediction"]) for message in result.predictions]


@pytest.fixture
def listing(tmp_path: Path) -> Path:
    """Where `evaluate` writes its predictions."""
    return tmp_path / "predictions"


def listed(listing: Path) -> list[float]:
    """What it has written."""
    return [float(line) for line in listing.read_text().splitlines()]


def drawn(count: int) -> tuple[list[list[str]], list[int]]:
    """Names and label of `count` examples: the exclusive or of two features, among others that say nothing.

    A tenth of the labels are turned over, so that no score becomes exactly -1 or 1, however the model has grown.
    """
    rng = np.random.default_rng(4)
    bits, wrong = rng.integers(0, 2, (count, 6)).tolist(), (rng.random(count) < 0.1).tolist()
    names = [["aA"[a], "bB"[b], *(f"n{i}" for i, bit in enumerate(rest) if bit)] for a, b, *rest in bits]
    return names, [2 * (a ^ b ^ turned) - 1 for (a, b, *_), turned in zip(bits, wrong, strict=True)]


def write_text(path: Path, count: int) -> Path:
    """Vowpal Wabbit text, which has no times."""
    lines = (f"{label} | {' '.join(names)}\n" for names, label in zip(*drawn(count), strict=True))
    path.write_text("".join(lines))
    return path


def write_json(path: Path, times: list[int]) -> Path:
    """JSON lines with the time of each under `at`, in seconds since 1970."""
    lines = (
        json.dumps({"label": label, "features": dict.fromkeys(names, 1), "at": at}) + "\n"
        for names, label, at in zip(*drawn(len(times)), times, strict=True)
    )
    path.write_text("".join(lines))
    return path


@pytest.mark.parametrize("start", [START_S, START_S // HOUR_S * HOUR_S])
def test_even_times_give_the_worker_s_predictions(
    start: int, mock_examples: str, tmp_path: Path, listing: Path
) -> None:
    """To the last bit, over two files, wherever in an hour the first example lies; equal parts give others."""
    files = [write_text(tmp_path / "a.vw", 1500), write_text(tmp_path / "b.vw", 2500)]
    times = ("--start-time", start, "--interval", "3s")
    run("produce", *files, *times, "--bootstrap-servers", mock_examples, "--partitions", 1)
    model, worker = fed_worker(mock_examples)

    options = ("--test-fraction", 0, "--predictions", listing, "--json")
    result = json.loads(run("evaluate", *files, *times, "--epoch-length", "1h", *options).stdout)
    assert listed(listing) == predictions_of(worker)
    assert result["parents"] == model.learner.census().parents[1:].sum() > 0
    assert (result["epochs"], result["late"], result["far_ahead"]) == (len(worker.ends) + 1, 0, 0)
    assert result["epochs"] == (start % HOUR_S + 4000 * 3 - 1) // HOUR_S + 1

    run("evaluate", *files, "--no-shuffle", *options)
    assert listed(listing) != predictions_of(worker)


def test_a_run_of_produce_that_began_now_can_be_followed(mock_examples: str, tmp_path: Path, listing: Path) -> None:
    """Its summary says when it began, and that is the start to give."""
    file = write_text(tmp_path / "a.vw", 1000)
    options = ("--interval", "10s", "--bootstrap-servers", mock_examples, "--partitions", 1, "--json")
    start_ms = json.loads(run("produce", file, *options).stdout)["start_time_ms"]
    _, worker = fed_worker(mock_examples)
    times = ("--epoch-length", "1h", "--interval", "10s", "--start-time", start_ms)
    run("evaluate", file, *times, "--test-fraction", 0, "--predictions", listing)
    assert listed(listing) == predictions_of(worker)


def test_own_times_give_the_worker_s_predictions(mock_examples: str, tmp_path: Path, listing: Path) -> None:
    """Out of order, late, empty epochs between, too far ahead, and a pause that is believed: all as the worker does."""
    rng = np.random.default_rng(5)
    times = (START_S + np.arange(2000) * 12 + rng.integers(-5000, 5000, 2000)).tolist()
    times[700] += 30 * DAY_S
    times[1300] += 7 * DAY_S + 20_000
    times += range(times[-1] + 2 * DAY_S, times[-1] + 2 * DAY_S + 300)
    times += range(times[-1] + 90 * DAY_S, times[-1] + 90 * DAY_S + 500)
    file = write_json(tmp_path / "rows.jsonl", times)
    field = ("--timestamp", "at")
    run("produce", file, *field, "--bootstrap-servers", mock_examples, "--partitions", 1)
    model, worker = fed_worker(mock_examples)
    assert {reject.reason for reject in worker.rejects} == {Reason.FAR_FUTURE}

    options = ("--epoch-length", "1h", "--test-fraction", 0, "--predictions", listing, "--json")
    done = run("evaluate", file, *field, *options)
    result = json.loads(done.stdout)
    assert listed(listing) == predictions_of(worker)
    assert result["far_ahead"] == len(worker.rejects) == 2 + LONE
    assert result["examples"] == 2800 - result["far_ahead"]
    assert result["late"] == model.clock.late > 0
    assert result["epochs"] == len(worker.ends) + 1
    at = datetime.fromtimestamp(times[700], UTC)
    assert done.stderr == (
        "stream-apple: 5 of 2800 examples are left out, as a worker makes dead letters of them: expected times at "
        "most 7d (--max-ahead, epochs.max_ahead) ahead of those before, found first "
        f"{at:%Y-%m-%d %H:%M} UTC in example 701\n"
    )


def test_how_far_ahead_is_an_option(tmp_path: Path) -> None:
    """As in the configuration; at the bound itself an example is kept."""
    file = write_json(tmp_path / "rows.jsonl", [START_S, START_S + 60, START_S + 121, START_S + 100])
    options = ("--timestamp", "at", "--epoch-length", "1h", "--json", "--test-fraction", 0)
    found = {
        ahead: json.loads(run("evaluate", file, *options, "--max-ahead", ahead).stdout)["far_ahead"]
        for ahead in ("59s", "60s", "61s")
    }
    assert found == {"59s": 3, "60s": 1, "61s": 0}


def test_the_start_is_an_epoch_s_unless_told_otherwise(tmp_path: Path, listing: Path) -> None:
    """So that the first epoch is a whole one, and a run can be repeated."""
    file = write_text(tmp_path / "a.vw", 1000)
    options = ("--epoch-length", "1h", "--interval", "10s", "--test-fraction", 0, "--predictions", listing)
    run("evaluate", file, *options)
    unsaid = listed(listing)
    run("evaluate", file, *options, "--start-time", START_S // HOUR_S * HOUR_S)
    assert listed(listing) == unsaid
    run("evaluate", file, *options, "--start-time", START_S)
    assert listed(listing) != unsaid


def test_the_test_part_is_the_end_of_the_file(tmp_path: Path, listing: Path) -> None:
    """The order is kept: the training part's predictions are the first of those for the whole."""
    file = write_text(tmp_path / "a.vw", 2000)
    options = ("--epoch-length", "1h", "--interval", "10s", "--predictions", listing, "--json")
    run("evaluate", file, *options, "--test-fraction", 0)
    whole = listed(listing)
    result = json.loads(run("evaluate", file, *options).stdout)
    assert listed(listing) == whole[:1600]
    assert result["test_loss"] is not None


def test_the_table_has_the_epochs_too(tmp_path: Path) -> None:
    """For people, above the verdict; without times there are no such rows."""
    file = write_text(tmp_path / "a.vw", 1000)
    lines = run("evaluate", file, "--epoch-length", "1h", "--interval", "10s").stdout.splitlines()
    rows = [line.split() for line in lines]
    at = rows.index(["epochs", "3"])
    assert rows[at : at + 3] == [["epochs", "3"], ["late", "0"], ["far", "ahead", "0"]]
    assert "far ahead" not in run("evaluate", file).stdout


BY_TIME = ("--epoch-length", "1h", "--interval", "1s")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*BY_TIME, "--epochs", "6"), "cuts epochs by time: --epochs does not apply"),
        ((*BY_TIME, "--doubling", "9"), "cuts epochs by time: --doubling does not apply"),
        ((*BY_TIME, "--seed", "0"), "--epoch-length keeps the order of the files and cuts epochs by time: --seed does"),
        (("--epoch-length", "1h"), "expected --timestamp or --interval, found neither"),
        (("--epoch-length", "1h", "--start-time", "5"), "expected --timestamp or --interval, found neither"),
        ((*BY_TIME, "--timestamp", "at"), "--start-time and --interval do not apply"),
        (("--interval", "1s"), "--interval is for --epoch-length, which cuts epochs by the examples' times"),
        (("--start-time", "5"), "--start-time is for --epoch-length"),
        (("--max-ahead", "7d"), "--max-ahead is for --epoch-length"),
        (("--epoch-length", "999ms"), "expected a duration from 1s to 366d, found '999ms'"),
        (("--epoch-length", "60"), "expected a duration such as '250ms', '5m' or '1h30m', found '60'"),
        ((*BY_TIME, "--max-ahead", "0s"), "expected a duration from 1ms to 3660d, found '0s'"),
    ],
)
def test_options_that_make_no_sense_are_refused(arguments: tuple[str, ...], message: str) -> None:
    """Before anything is read, with click's exit code for usage errors."""
    result = CliRunner().invoke(main, ["evaluate", "absent", *arguments])
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_a_missing_time_is_named(tmp_path: Path) -> None:
    """With file and line, as `produce` does."""
    file = tmp_path / "rows.jsonl"
    file.write_text('{"label": 1, "features": {"a": 1}, "at": 5}\n{"label": 1, "features": {"a": 1}}\n')
    result = CliRunner().invoke(main, ["evaluate", str(file), "--epoch-length", "1h", "--timestamp", "at"])
    assert result.exit_code == 65
    assert result.stderr.startswith(f"stream-apple: {file}:2: expected a time from 1970 to 9999")
