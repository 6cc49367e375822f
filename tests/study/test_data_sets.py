"""Which files are data sets, and what a manifest may say."""

import os
from pathlib import Path

import pytest
from support.required import SharedFile

from stream_apple.errors import ConfigurationError
from study.data_sets import DataSet, find_data_sets
from study.report.paper import read_paper

PAPER_SETS = (
    "20news", "a9a", "abalone-binary", "abalone-reg", "adult", "cal-housing", "census", "covtype", "eeg-eye-state",
    "eeg-eye-state-std", "letter", "magic04", "mushroom", "poker", "rcv1-vwsample", "shuttle", "titanic",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sets, and what is none."""
    for name in ("b.svm.gz", "a.svm", "paper.tsv", "notes.md"):
        (tmp_path / name).write_text("")
    (tmp_path / "deeper.svm").mkdir()
    return tmp_path


def test_files_are_sets_by_name(folder: Path) -> None:
    """Only files of known suffixes, in the order of their names."""
    assert find_data_sets(folder) == ([DataSet("a", folder / "a.svm"), DataSet("b", folder / "b.svm.gz")], [])


def test_the_manifest_says_what_files_do_not(folder: Path) -> None:
    """Its own file in the folder, or another; every key has its effect."""
    (folder / "manifest.toml").write_text("[a]\nskip = true\n")
    assert [each.name for each in find_data_sets(folder).sets] == ["b"]
    other = folder / "other.toml"
    other.write_text('[a]\ntask="regression"\nlabel_range=[-1,1]\nrows=50\npaper="A"\nwithout=["cubic"]\nskip=false\n')
    expected = DataSet("a", folder / "a.svm", "regression", (-1.0, 1.0), 50, "A", ("cubic",))
    assert find_data_sets(folder, other).sets[0] == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[c]\nrow = 5\n", r"\[c\]: expected task, .*, found row"),
        ("a = 1\n", r"\[a\]: expected a table, found 1"),
        ("[a\n", "expected TOML"),
        ("[a]\nrow = 5\n", r"\[a\]: expected task, .*, found row"),
        ("[a]\nrows = 5\n", r"\[a\], rows: expected a whole number of at least 10, found 5"),
        ("[a]\nrows = true\n", "found True"),
        ("[a]\nlabel_range = [1, -1]\n", r"label_range: expected two numbers, the lower first, found \[1, -1\]"),
        ("[a]\nlabel_range = 3\n", "the lower first, found 3"),
        ('[a]\ntask = "ranking"\n', "task: expected one of binary, regression, found 'ranking'"),
        ('[a]\ntask = "binary"\nlabel_range = [0, 1]\n', "label_range for a regression only"),
        ('[a]\nwithout = ["quartic"]\n', "without: expected a list of linear"),
        ("[a]\nskip = 1\n", "skip: expected true or false, found 1"),
        ("[a]\nskip = true\n[b]\nskip = true\n", "found none to be used"),
    ],
)
def test_faults_of_a_manifest_are_explained(folder: Path, text: str, said: str) -> None:
    """What was expected, what was found, and where."""
    (folder / "manifest.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        find_data_sets(folder)


def test_sets_that_only_the_manifest_has_are_named(folder: Path) -> None:
    """Whoever has a part of the files can use the manifest of all; a set that would be skipped is not missed."""
    (folder / "manifest.toml").write_text("[c]\nrows = 50\n[a]\nrows = 20\n[aa]\n[d]\nskip = true\n")
    found = find_data_sets(folder)
    assert [(each.name, each.rows) for each in found.sets] == [("a", 20), ("b", None)]
    assert found.absent == ["aa", "c"]


def test_the_manifest_of_the_paper_s_sets(shared: SharedFile, tmp_path: Path) -> None:
    """Sixteen sets, each with a row of the paper's table, that we have."""
    for name in PAPER_SETS:
        found = shared(f"data/{name}.svm.gz")
        (tmp_path / found.name).symlink_to(found)
    manifest = Path(__file__).resolve().parents[2] / "study" / "paper_sets.toml"
    sets, absent = find_data_sets(tmp_path, manifest)
    assert absent == []
    assert len(sets) == 16
    assert {each.paper or each.name for each in sets} <= read_paper(shared("data/paper.tsv")).keys()


def test_faults_of_a_folder_are_explained(tmp_path: Path) -> None:
    """No folder, no set, two files of one name, no manifest."""
    with pytest.raises(ConfigurationError, match="expected a folder"):
        find_data_sets(tmp_path / "none")
    with pytest.raises(ConfigurationError, match=r"expected files \*\.svm"):
        find_data_sets(tmp_path)
    (tmp_path / "a.svm").write_text("")
    with pytest.raises(ConfigurationError, match="expected a readable file"):
        find_data_sets(tmp_path, tmp_path / "none.toml")
    (tmp_path / "a.svm.gz").write_text("")
    with pytest.raises(ConfigurationError, match=r"one file a data set, found a\.svm and a\.svm\.gz"):
        find_data_sets(tmp_path)


def test_what_is_no_regular_file_is_refused_and_not_read(folder: Path) -> None:
    """A pipe that nobody writes to would be waited for without end: as a manifest, and as the paper's table."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    for read in (lambda: find_data_sets(folder, pipe), lambda: read_paper(pipe)):
        with pytest.raises(ConfigurationError, match=r"expected a readable file .*: it is a pipe"):
            read()
