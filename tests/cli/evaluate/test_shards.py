"""`stream-apple evaluate --shards`: what one learner gives, what several give, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.evaluate_command import evaluate


def facts(*arguments: object) -> dict[str, Any]:
    """What it prints, but for how long it took."""
    result = evaluate(*arguments, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found | {"seconds": None}


BY_TIME = ("--epoch-length", "10m", "--interval", "1s")


@pytest.mark.parametrize("schedule", [(), ("--doubling", "100"), BY_TIME])
@pytest.mark.parametrize("merge", [("--merge", "off"), ("--merge", "average", "--merge-every", "2")])
def test_one_shard_is_no_shards(pairs: Path, tmp_path: Path, schedule: tuple[str, ...], merge: tuple[str, ...]) -> None:
    """All numbers, and all predictions."""
    alike = ("--mergeable",) if "average" in merge else ()
    alone = facts(pairs, *schedule, *alike, "--predictions", tmp_path / "alone")
    one = facts(pairs, *schedule, "--shards", 1, *merge, "--predictions", tmp_path / "one")
    assert alone.items() <= one.items()
    assert (tmp_path / "alone").read_bytes() == (tmp_path / "one").read_bytes()
    assert one["parents"] > 0


def test_merged_and_apart(pairs: Path, tmp_path: Path) -> None:
    """Which it was, and how many merges there were, is told; there is a prediction for each example, and a curve."""
    options = ("--shards", 4, "--predictions", tmp_path / "lines", "--plot", tmp_path / "curve.png")
    merged, apart = facts(pairs, *options), facts(pairs, "--shards", 4, "--merge", "off")
    assert merged["progressive_loss"] != apart["progressive_loss"]
    assert (merged["shards"], merged["merge"], merged["merges"]) == (4, "average", 5)
    assert (apart["merge"], apart["merges"]) == ("off", 0)
    assert len((tmp_path / "lines").read_text().splitlines()) == merged["examples"] - merged["examples"] // 5
    assert (tmp_path / "curve.png").exists()
    found = facts(pairs, "--shards", 4, *BY_TIME)
    assert found["epochs"] == 5
    assert found["merges"] == 3  # one more ends in the test part
    assert "merges" in evaluate(pairs, "--shards", 2).stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--merge", "off"), "--merge is for --shards"),
        (("--shards", "2", "--merge", "off", "--merge-every", "2"), "--merge-every does not apply"),
        (("--shards", "2", "--no-mergeable"), "expected learner.mergeable = true, found false"),
        (
            ("--shards", "2", "--no-mixture", "--loss", "logistic", "--steps", "theorem1", "--theorem1-lambda", "0.01"),
            "steps",
        ),
    ],
)
def test_contradictions_are_named(pairs: Path, options: tuple[str, ...], message: str) -> None:
    """Before a file is read."""
    result = evaluate(pairs.with_name("missing"), *options)
    said = f"{result.stderr} {result.exception}".replace("\u2502", "")
    assert message in " ".join(said.split())
