"""`stream-apple evaluate` of files of any shape, and of labels that come late."""

import json
import random
from pathlib import Path

import pytest
from click.testing import Result
from support.evaluate_command import evaluate

FLAT = [
    "--label",
    "late",
    "--features",
    "*",
    "--timestamp",
    "at",
    "--loss",
    "logistic",
    "--bits",
    "10",
]
BY_TIME = ["--epoch-length", "1h", "--test-fraction", "0", "--json"]


@pytest.fixture
def flights(tmp_path: Path) -> Path:
    """One a minute; each hour all of one carrier's are late, of another carrier in the next."""
    rng = random.Random(3)
    path = tmp_path / "flights.jsonl"
    rows = [
        {
            "at": 1_700_000_000 + 60 * minute,
            "carrier": (carrier := rng.choice("ABC")),
            "late": "ABC"[hour % 3] == carrier,
        }
        for minute in range(1800)
        for hour in [minute // 60]
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def loss(result: Result) -> float:
    """The progressive loss of a run that went well."""
    assert result.exit_code == 0, result.output
    return float(json.loads(result.stdout)["progressive_loss"])


def test_what_is_known_too_late_is_of_less_use(flights: Path) -> None:
    """Who is late changes each hour: known at once it helps, known hours later it misleads."""
    at_once = loss(evaluate(flights, *FLAT, *BY_TIME))
    assert loss(evaluate(flights, *FLAT, *BY_TIME, "--label-delay", "0s")) == at_once
    assert loss(evaluate(flights, *FLAT, *BY_TIME, "--label-delay-examples", 1)) == at_once
    late = loss(evaluate(flights, *FLAT, *BY_TIME, "--label-delay", "2h"))
    assert late > 1.05 * at_once
    assert loss(evaluate(flights, *FLAT, *BY_TIME, "--label-delay-examples", 120)) == pytest.approx(late, rel=0.02)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--label-delay", "1h"], "expected --epoch-length, found none"),
        (["--label-delay-examples", 5], "expected --no-shuffle"),
        ([*BY_TIME, "--label-delay", "1h", "--label-delay-examples", 5], "expected one of them"),
        ([*BY_TIME, "--label-delay", "1h", "--shards", 2], "--label-delay does not apply"),
    ],
)
def test_what_contradicts_itself(flights: Path, options: list[object], told: str) -> None:
    """It is refused before anything is read."""
    result = evaluate(flights, *FLAT, *options)
    assert result.exit_code == 2
    assert told in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--weight", "label"), "found 'label' twice"),
        (("--label-map", "yes"), "expected a table from labels"),
        (("--label-map", "yes=1,no=0,yes=2"), "each label once, such as { yes = 1, no = 0 }, found 'yes=1,no=0,yes=2'"),
    ],
)
def test_a_wrong_option_is_refused_in_the_words_of_the_configuration(
    flights: Path, options: tuple[str, ...], told: str
) -> None:
    """As of a configuration file."""
    result = evaluate(flights, *options)
    assert result.exit_code != 0
    assert told in str(result.exception)


def test_lists_are_repeated_or_separated_by_commas(flights: Path) -> None:
    """Both say the same."""
    found = [
        loss(evaluate(flights, *FLAT, *BY_TIME, *options))
        for options in (["--ignore", "carrier,x"], ["--ignore", "carrier", "--ignore", "x"])
    ]
    assert found[0] == found[1] > loss(evaluate(flights, *FLAT, *BY_TIME))


def test_a_worker_s_configuration_says_how_many_features_there_may_be(tmp_path: Path) -> None:
    """Of more the worker makes a dead letter; without a configuration all that can be learned are."""
    examples, config = tmp_path / "examples.vw", tmp_path / "worker.toml"
    examples.write_text("1 |a x y z\n")
    for most, told in ((2, "example 1: expected at most 2 features, found more, in 'a' of 'features'"), (3, "None")):
        config.write_text(f"[learner]\nbits = 10\n[limits]\nmax_features = {most}\n")
        assert str(evaluate(examples, "--config", config).exception).endswith(told)
    examples.write_text(f"1 |a {' '.join(f'x{number}' for number in range(4097))}\n")
    assert evaluate(examples, "--bits", 10).exit_code == 0


def test_a_worker_s_configuration_is_the_default(flights: Path, tmp_path: Path) -> None:
    """Learner, shape of records and epochs; what is typed holds in its place, and --epochs in place of spans."""
    config = tmp_path / "worker.toml"
    config.write_text(
        '[learner]\nloss = "logistic"\nbits = 10\n[epochs]\nlength = "1h"\n'
        '[input]\nlabel = "late"\nfeatures = "*"\ntimestamp = "at"\n'
    )

    def found(*arguments: object) -> dict[str, object]:
        result = evaluate(flights, *arguments, "--test-fraction", 0, "--json")
        assert result.exit_code == 0, result.output
        return {**json.loads(result.stdout), "seconds": 0}

    own = ["--config", config]
    assert found(*own) == found(*FLAT, "--epoch-length", "1h")
    assert found(*own, "--label-delay", "2h") == found(*FLAT, "--epoch-length", "1h", "--label-delay", "2h")
    assert found(*own, "--epoch-length", "5h") == found(*FLAT, "--epoch-length", "5h")
    assert found(*own, "--epochs", 3) == found(*FLAT, "--epochs", 3)
    assert found(*own, "--method", "linear", "--loss", "squared", "--ignore", "carrier") == found(
        *FLAT, "--epoch-length", "1h", "--method", "linear", "--loss", "squared", "--ignore", "carrier"
    )
