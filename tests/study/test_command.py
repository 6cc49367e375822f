"""`python -m study` from its command line to its files; stopped, killed and started again."""

import csv
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner, Result
from support.tiny_sets import write_tiny_sets
from support.waiting import DEADLINE_S

from study import methods
from study.__main__ import command
from study.experiments.experiment import Experiment, Inquiry, StudyFinding
from study.runs import campaign

QUICK = ("--rates", "0.5", "--alphas", "0.5,1", "--bits", "12", "--seeds", "2", "--epochs", "3,6", "--jobs", "1")
OURS = ("--methods", "linear,quadratic,cubic,apple")


def study(*arguments: object) -> Result:
    """Run the command in this process, with processes of its own."""
    return CliRunner().invoke(command, list(map(str, arguments)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two tiny sets."""
    return write_tiny_sets(tmp_path / "sets")


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what the study does in processes be done here: each phase starts them anew, which takes a second."""
    monkeypatch.setattr(
        campaign, "run_all", lambda function, given, _processes: ((each, function(each)) for each in given)
    )


def table(path: Path) -> list[dict[str, str]]:
    """Rows of a table of comma-separated values."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_whole_study(folder: Path, tmp_path: Path) -> None:
    """Every method on both sets: runs, tables, figures, and a summary with what the paper has."""
    pytest.importorskip("vowpalwabbit")
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    arguments = ["--methods", "linear,quadratic,cubic,apple-plain,vw-stage-poly", "--epochs", "6", "--seeds", "1"]
    done = study(folder, "--out", out, *QUICK, *arguments)
    assert done.exit_code == 0, done.output
    assert done.stdout.strip() == str(out / "summary.md")
    # 3 baselines, the paper's with 2 exponents, stage_poly, on 2 sets; a seed, and once timed.
    assert len(table(out / "results.csv")) == 6 * 2 * 2
    derived = {(row["data_set"], row["method"]): row for row in table(out / "derived.csv")}
    assert len(derived) == 2 * 8
    assert float(derived["pairs", "quadratic"]["error"]) == 0.0 < float(derived["pairs", "linear"]["error"])
    assert derived["pairs", "linear"]["relative_error"] == "1.0"
    assert derived["slope", "linear"]["relative_time"] == "1.0"
    ends = [row for row in table(out / "epoch_losses.csv") if row["method"] == "apple-plain" and row["epochs"] == "6"]
    assert {row["epoch"] for row in ends} == set("123456")
    assert all(float(row["linear_progressive_loss"]) > 0 for row in ends)
    # Whether the third has a set is a matter of seconds.
    figures = {path.name for path in out.glob("figure-*.png")}
    assert figures | {"figure-3.png"} == {f"figure-{number}.png" for number in range(1, 8)}
    summary = (out / "summary.md").read_text()
    for heading in ("Test errors (Table 2)", "Seconds (Table 3)", "Counts", "Better or worse", "after every epoch"):
        assert heading in summary
    assert "; load average " in summary
    assert "apple-plain α=1, 6 epochs: worst ratio" in summary  # noqa: RUF001  the paper's sign
    assert summary.count("is missing") == ("figure-3.png" not in figures)


@pytest.mark.usefixtures("in_this_process")
def test_without_timing(folder: Path, tmp_path: Path) -> None:
    """No seconds; the summary says so, and which pictures are missing for it."""
    out = tmp_path / "out"
    assert study(folder, "--out", out, *QUICK, *OURS, "--no-timing", "--sets", "slope").exit_code == 0
    summary = (out / "summary.md").read_text()
    assert "Not measured" in summary
    assert "**Figure 1 is missing: " in summary
    assert {row["purpose"] for row in table(out / "results.csv")} == {"error"}
    assert {row["data_set"] for row in table(out / "results.csv")} == {"slope"}


@pytest.mark.usefixtures("in_this_process")
def test_sets_that_are_absent_are_named_loudly(folder: Path, tmp_path: Path) -> None:
    """The others are run, and output and report name what is not there; asked for by name, it is an error."""
    manifest, out = tmp_path / "manifest.toml", tmp_path / "out"
    manifest.write_text("[pairs]\nrows = 100\n[gone]\n[away]\nrows = 50\n")
    arguments = [folder, "--manifest", manifest, *QUICK, "--methods", "linear", "--no-timing"]
    done = study(*arguments, "--out", out)
    assert done.exit_code == 0, done.output
    said = f"Absent in {folder}, though the manifest has them, and left out of all that follows: away, gone."
    assert f"note: {said}" in " ".join(done.stderr.split())
    assert f"**{said}**" in (out / "summary.md").read_text()
    assert {row["data_set"] for row in table(out / "results.csv")} == {"pairs", "slope"}
    named = study(*arguments, "--out", tmp_path / "named", "--sets", "pairs,gone")
    assert "--sets: expected some of pairs, slope, found gone" in named.stderr
    without = study(*arguments, "--out", tmp_path / "without", "--sets", "pairs")
    assert without.exit_code == 0
    assert "bsent" not in without.stderr + (tmp_path / "without" / "summary.md").read_text()


@pytest.mark.usefixtures("in_this_process")
def test_vowpal_s_settings_have_one_name(folder: Path, tmp_path: Path) -> None:
    """All nine are run and learn, and the report says what is best on a set, and what ours is over it."""
    pytest.importorskip("vowpalwabbit")
    out = tmp_path / "out"
    arguments = ["--sets", "pairs", "--rates", "0.5", "--bits", "12", "--seeds", "1", "--no-timing", "--alphas", "1"]
    done = study(folder, "--out", out, *arguments, "--methods", "apple,vw-settings")
    assert done.exit_code == 0, done.output
    rows = table(out / "results.csv")
    assert {row["method"] for row in rows} == {"apple", *methods.VOWPAL_CHOICES}
    assert {row["failure"] for row in rows} == {""}
    of_pairs = {row["method"]: float(row["progressive_error"]) for row in rows}
    assert all(0 < of_pairs[name] < 0.6 for name in methods.VOWPAL_CHOICES)
    summary = (out / "summary.md").read_text()
    found = next(line for line in summary.splitlines() if line.startswith("| pairs | ") and "(vw-" in line)
    best = min(methods.VOWPAL_CHOICES, key=of_pairs.__getitem__)
    assert f"({best})" in found.split("|")[2]
    assert f"({of_pairs['apple'] / of_pairs[best]:.3f}, " in found.split("|")[4]


@pytest.mark.usefixtures("in_this_process")
def test_picky_methods_tell_what_they_test(folder: Path, tmp_path: Path) -> None:
    """Products that an example has besides its features, set by set, of these methods alone."""
    out = tmp_path / "out"
    done = study(folder, "--out", out, *QUICK, "--methods", "linear,picky-ssm,picky-weight", "--no-timing")
    assert done.exit_code == 0, done.output
    rows = table(out / "results.csv")
    assert {row["failure"] for row in rows} == {""}
    assert {row["tested_per_example"] == "" for row in rows if row["method"] == "linear"} == {True}
    picky = {row["data_set"]: row for row in rows if row["method"] == "picky-ssm" and row["alpha"] == "1.0"}
    assert float(picky["pairs"]["tested_per_example"]) > 0.5
    summary = (out / "summary.md").read_text()
    section = summary[summary.index("## Products tested per example") : summary.index("## Counts")]
    assert "| set | picky-ssm α=0.5 | picky-ssm α=1 |" in section  # noqa: RUF001  the paper's sign
    assert "linear" not in section


@pytest.mark.usefixtures("in_this_process")
def test_a_killed_study_goes_on(folder: Path, tmp_path: Path) -> None:
    """Killed without warning, and its last line torn: its processes end, and only what is missing is done."""
    out = tmp_path / "out"
    arguments = [folder, "--out", out, *QUICK, *OURS, "--no-timing", "--seeds", "40"]
    process = _start(arguments, out)
    family = [*psutil.Process(process.pid).children(recursive=True)]
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(family, 20)
    assert alive == []
    runs = out / "runs.jsonl"
    before = runs.read_text().splitlines()
    runs.write_text(runs.read_text()[:-20])
    less = [*arguments[:-1], "3"]
    assert study(*less).exit_code == 0
    after = runs.read_text().splitlines()
    assert after[: len(before) - 1] == before[:-1]
    keys = [json.loads(line)["key"] for line in after]
    assert len(keys) == len(set(keys))
    assert len(table(out / "results.csv")) == 5 * 2 * 3


def test_ctrl_c_keeps_what_is_done(folder: Path, tmp_path: Path) -> None:
    """It ends as shells expect, says how to go on, and leaves no process behind."""
    out = tmp_path / "out"
    process = _start([folder, "--out", out, *QUICK, *OURS, "--no-timing", "--seeds", "40"], out)
    family = [*psutil.Process(process.pid).children(recursive=True)]
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 128 + signal.SIGINT
    assert "finished runs are kept: the same command continues" in said
    assert "Traceback" not in said
    assert psutil.wait_procs(family, 20)[1] == []
    assert [json.loads(line) for line in (out / "runs.jsonl").read_text().splitlines()]


def _start(arguments: list[object], out: Path) -> subprocess.Popen[str]:
    """Start the command, and wait for its first finished runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "study", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    runs, deadline = out / "runs.jsonl", time.monotonic() + 100
    while not (runs.exists() and runs.read_text().count("\n") >= 3):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


@pytest.mark.usefixtures("in_this_process")
def test_what_was_asked_for_and_is_not_there_is_said_loudly(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vowpal Wabbit by name is an error; without being asked for it is left out, with a note above the tables."""
    monkeypatch.setattr("study.__main__.installed_version", lambda _: None)
    asked = study(folder, "--methods", "linear,vw-linear")
    assert asked.exit_code == 2
    assert "expected Vowpal Wabbit to be installed for vw-linear" in asked.stderr
    out = tmp_path / "out"
    done = study(folder, "--out", out, "--rates", "default", "--alphas", "1", "--bits", 10, "--seeds", 1, "--no-timing")
    assert done.exit_code == 0
    assert "note: Vowpal Wabbit is not installed" in done.stderr
    assert "**Vowpal Wabbit is not installed" in (out / "summary.md").read_text()
    assert {row["method"] for row in table(out / "results.csv")} == set(methods.BASELINES) | {
        "apple",
        "apple-plain",
        "ssm",
    }


class TestAnotherExperiment:
    """The command with `--experiment`."""

    @staticmethod
    def planted(monkeypatch: pytest.MonkeyPatch, run: Callable[[Inquiry], Iterator[StudyFinding]]) -> None:
        """In place of the experiment "streaming", one that is quick."""
        experiment = Experiment(run, ("pairs", "elsewhere"))
        monkeypatch.setattr("study.__main__.load_experiment", lambda _name: experiment)

    def test_it_is_asked_and_its_findings_are_written(
        self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With the sets it is made for, or those that are named; as they come, in a folder of its name."""
        asked: list[Inquiry] = []

        def run(inquiry: Inquiry) -> Iterator[StudyFinding]:
            asked.append(inquiry)
            for done, name in enumerate(inquiry.sets):
                inquiry.tell(f"trying {name}", done, 3)
                yield StudyFinding(name, f"Of {name}", ("set", "rows"), ((name, inquiry.rows),))
                assert (tmp_path / "out" / "streaming" / f"{name}.csv").exists()

        self.planted(monkeypatch, run)
        done = study(folder, "--experiment", "streaming", "--out", tmp_path / "out", "--seeds", 4, "--rows", 70)
        assert done.exit_code == 0, done.output
        page = tmp_path / "out" / "streaming" / "summary.md"
        assert done.stdout.strip() == str(page)
        assert "trying pairs: 3 left" in done.stderr
        assert list(asked[0].sets) == ["pairs"]
        assert (asked[0].seeds, asked[0].rows, asked[0].out) == (4, 70, page.parent)
        assert "**Seeds: 4; at most 70 rows of a set.**" in page.read_text()
        assert (
            study(folder, "--experiment", "streaming", "--out", tmp_path / "out", "--sets", "slope,pairs").exit_code
            == 0
        )
        assert list(asked[1].sets) == ["slope", "pairs"]
        assert table(page.parent / "slope.csv") == [{"set": "slope", "rows": "50000"}]

    def test_it_names_the_absent_sets_that_it_is_made_for(
        self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Others of the manifest are no loss to it."""
        self.planted(monkeypatch, lambda _: iter([StudyFinding("first", "First", ("a",), (("1",),))]))
        (folder / "manifest.toml").write_text("[elsewhere]\n[gone]\n")
        done = study(folder, "--experiment", "streaming", "--out", tmp_path / "out")
        assert done.exit_code == 0, done.output
        said = f"Absent in {folder}, though the manifest has them, and left out of all that follows: elsewhere."
        assert said in " ".join(done.stderr.split())
        assert f"**{said}**" in (tmp_path / "out" / "streaming" / "summary.md").read_text()

    @pytest.mark.parametrize(
        "option", ["methods", "rates", "alphas", "epochs", "bits", "loss", "paper", "jobs", "timing"]
    )
    def test_options_of_the_expansion_are_not_for_it(self, folder: Path, tmp_path: Path, option: str) -> None:
        """Nor would they be heard: they are refused, whatever they say."""
        given = {"methods": "linear", "rates": "default", "loss": "logistic", "paper": "paper.tsv", "timing": None}
        words = (
            [f"--{option}"]
            if option == "timing"
            else [f"--{option}", str(given.get(option, "9" if option != "alphas" else "1"))]
        )
        done = study(folder, "--experiment", "streaming", "--out", tmp_path / "out", *words)
        assert done.exit_code == 2
        said = " ".join(done.stderr.split())
        assert f"--{option}: expected only with --experiment expansion, found --experiment streaming" in said
        assert not (tmp_path / "out").exists()

    def test_what_it_needs_is_asked_for_early(
        self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its packages, and a set that it is made for."""
        arguments = (folder, "--experiment", "streaming", "--out", tmp_path / "out")
        monkeypatch.setattr("study.experiments.registry.find_spec", lambda _package: None)
        missing = study(*arguments)
        assert "expected river to be installed, found none: pip install --editable '.[study]'" in missing.stderr
        self.planted(monkeypatch, lambda _inquiry: iter(()))
        monkeypatch.setattr(
            "study.__main__.load_experiment", lambda _name: Experiment(lambda _: iter(()), ("elsewhere",))
        )
        assert "made for (elsewhere)" in study(*arguments).stderr
        assert "--sets: expected some of pairs, slope" in study(*arguments, "--sets", "none").stderr
        assert not (tmp_path / "out").exists()

    def test_a_signal_leaves_what_was_found(
        self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The page is there, and the exit code is that of the signal."""

        def run(_inquiry: Inquiry) -> Iterator[StudyFinding]:
            yield StudyFinding("first", "First", ("a",), (("1",),))
            signal.raise_signal(signal.SIGTERM)
            yield StudyFinding("second", "Second", ("a",), (("1",),))

        self.planted(monkeypatch, run)
        done = study(folder, "--experiment", "streaming", "--out", tmp_path / "out")
        assert done.exit_code == 128 + signal.SIGTERM
        page = tmp_path / "out" / "streaming" / "summary.md"
        assert f"stopped; what was found is in {page}" in "".join(done.stderr.splitlines())
        assert "## First" in page.read_text()
        assert "Second" not in page.read_text()


def test_the_folder_of_results_is_looked_at_first(folder: Path, tmp_path: Path) -> None:
    """It need not be there, but nothing may be in its way, and it may not be the folder of the data sets."""
    (tmp_path / "file").write_text("")
    in_the_way = study(tmp_path / "absent", "--out", tmp_path / "file" / "deep" / "out")
    assert in_the_way.exit_code == 2
    assert "expected a directory that can be written" in " ".join(in_the_way.stderr.split())
    absent = study(tmp_path / "absent", "--out", tmp_path / "new" / "deep")
    assert "expected a folder of data sets" in absent.stderr
    (tmp_path / "other").symlink_to(folder)
    for path in (folder, tmp_path / "other"):
        same = study(folder, "--out", path)
        assert same.exit_code == 2
        assert "--out: expected another path than those that are read or written" in " ".join(same.stderr.split())


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--experiment", "other"), "'other' is not one of 'expansion', "),
        (("--methods", "apples"), "expected some of linear, quadratic"),
        (("--rates", "fast"), "expected numbers separated by commas"),
        (("--rates", "0"), "expected a number above 0"),
        (("--alphas", "3"), "expected a number above 0 and at most 2"),
        (("--epochs", "0"), "expected whole numbers above 0"),
        (("--sets", "none"), "--sets: expected some of pairs, slope, found none"),
        (("--manifest", "none.toml"), "expected a readable file"),
        (("--paper", "none.tsv"), "expected a readable file"),
        (("--loss", "logistic", *OURS), "slope.svm.gz: expected two labels for the logistic loss"),
    ],
)
def test_mistakes_are_told_early(folder: Path, tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    """Before anything is learned."""
    done = study(folder, "--out", tmp_path / "out", *arguments)
    assert done.exit_code != 0
    assert said in " ".join(done.stderr.split())
    assert not (tmp_path / "out" / "summary.md").exists()
