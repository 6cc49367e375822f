"""What `inspect` prints of a model; where it finds models is tried in end_to_end/test_inspect_command.py."""

from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner
from support.records import DECODER, SETTINGS, TOPIC, new_model, stream

from stream_apple.cli import main
from stream_apple.cli.inspect import command
from stream_apple.monitoring.inspection import view_model
from stream_apple.records.message.feature_names import Names
from stream_apple.stream.model.partition_model import PartitionModel

RECORDS = stream(2000, seed=1)


def printed(
    model: PartitionModel, path: Path, monkeypatch: pytest.MonkeyPatch, **more: object
) -> tuple[str, dict[str, Any]]:
    """What the command says of the model, and the facts that it is given."""
    facts = view_model(model, Names(), 5).facts(5) | more
    monkeypatch.setattr("stream_apple.app.inspect.from_file", lambda *_: facts)
    path.touch()
    result = CliRunner().invoke(command, ["--file", str(path)], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    return result.output, facts


def row(text: str, name: str) -> list[str]:
    """The cells of the first line that begins with `name`."""
    return next(line for line in text.splitlines() if line.strip().startswith(name)).split()


def test_weights_shares_and_losses_of_a_mixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each predictor has its weight, those that are trusted their share, and apple's loss has a column."""
    model = new_model()
    model.process(RECORDS)
    text, facts = printed(model, tmp_path / "model", monkeypatch)
    shown = text[text.index("What is published") :]
    for name, weight in facts["mixture"]["weights"].items():
        assert row(shown, name)[1] == f"{weight:+.4f}"
    assert row(shown, "stack")[1:] == ["-", f"{facts['mixture']['shares']['stack']:.1%}"]
    losses = facts["losses"]["start"]
    means = [f"{losses[name]:.4f}" for name in ("loss", "expanded_loss", "linear_loss", "best_constant_loss")]
    assert row(text, "since the start")[3:7] == means


def test_a_plain_model_has_no_mixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said of weights; AUC and calibration are those of two labels."""
    options = replace(SETTINGS.options, mixture=False)
    model = PartitionModel(TOPIC, 0, new_model().lineage, SETTINGS._replace(options=options), DECODER)
    model.process(RECORDS)
    text, facts = printed(model, tmp_path / "model", monkeypatch)
    assert facts["mixture"] == {"weights": {}, "shares": {}}
    assert "What is published" not in text
    auc = facts["quality"]["start"]["published"]["auc"]
    assert row(text, "since the start")[-2] == ("-" if auc is None else f"{auc:.4f}")


def test_where_it_stands_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its newest boundary, and who is in the newest merge; nothing where models are not merged."""
    merging = {
        "boundary": {"round": 7, "at": 1200, "state": "contributed"},
        "merge": {"round": 6, "digest": "0" * 32, "roster": [0, 2], "excluded": {"1": "late"}},
    }
    text, _ = printed(new_model(), tmp_path / "model", monkeypatch, merging=merging)
    assert "contributed at the end of round 7, at offset 1,200" in text
    assert "newest merge: round 6, of partitions 0, 2; not 1 (late)" in text
    text, _ = printed(new_model(), tmp_path / "other", monkeypatch)
    assert "round" not in text


def test_what_rounds_to_nothing_has_no_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A weight of -0.00001 is shown as 0, as one of 0.00001 is."""
    model = new_model()
    model.process(RECORDS)
    facts = view_model(model, Names(), 5).facts(5)
    tiny = {"weight": -1e-6, "weights": {"linear": -1e-7}, "salience": -0.0}
    text, _ = printed(
        model,
        tmp_path / "model",
        monkeypatch,
        top=[each | tiny | {"degree": 1} for each in facts["top"]],
        products=[],
        mixture={"weights": dict.fromkeys(facts["mixture"]["weights"], -1e-9), "shares": {}},
        tables=[{"title": "t", "columns": ["a", "b", "c"], "rows": [["a", -0.0, [-0.0, 1.5]]], "note": ""}],
    )
    assert "+0.0000" in text
    assert "-0.0000" not in text
    assert "0  1.5" in text
    assert "-0  1.5" not in text


def test_what_the_learner_says_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kind, its notes, how full its table is, and its own tables: with names, numbers, and what is missing."""
    rows = [["a \u00d7 b", 1234, 0.5, "b"], ["?", 5, 1.25, None]]
    table = {"title": "Pairs", "columns": ["pair", "count", "sum", "best"], "note": "Of all.", "rows": rows}
    model = new_model()
    model.process(RECORDS)
    text, facts = printed(model, tmp_path / "model", monkeypatch, kind="pairs", notes=["2 are new"], tables=[table])
    assert "  pairs, squared loss, " in text
    assert "  2 are new\n" in text
    slots, occupied = (facts["gauges"][f"table_{name}"] for name in ("slots", "occupied_slots"))
    assert f"{occupied:,} of {slots:,} slots" in text
    shown = text[text.index("Pairs") :]
    assert row(shown, "a \u00d7 b") == ["a", "\u00d7", "b", "1,234", "0.5000", "b"]
    assert row(shown, "?") == ["?", "5", "1.2500"]
    assert "Of all." in shown
    text, _ = printed(model, tmp_path / "other", monkeypatch, gauges={})
    assert "slots" not in text


def test_a_server_that_is_no_worker() -> None:
    """A replica's address, say: it does not have the path."""
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        result = CliRunner().invoke(main, ["inspect", "--url", f"http://127.0.0.1:{server.server_port}"])
        thread.join()
    assert result.exit_code == 78
    assert "/status: expected a worker, found another kind of server: status 501" in result.output


def test_a_worker_of_a_version_that_tells_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal names what is missing; there is no traceback."""
    facts = view_model(new_model(), Names(), 5).facts(5)
    del facts["options"]["loss"]
    monkeypatch.setattr("stream_apple.app.inspect.from_worker", lambda *_: [facts])
    result = CliRunner().invoke(main, ["inspect", "--url", "http://worker"])
    assert result.exit_code == 78
    assert "expected a view of a model with 'loss', found one without: the worker has another version" in result.output
