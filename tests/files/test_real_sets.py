"""The real data sets, against a parse that is as plain as can be."""

import gzip

import pytest
from support.file_formats import detect
from support.required import SharedFile

from stream_apple.files import read_examples
from stream_apple.files.detection import FileFormat

# name, rows and features as shared/data/MANIFEST.md counts them
SETS = [
    ("titanic", 2201),
    ("mushroom", 8124),
    ("abalone-reg", 4177),
    ("rcv1-vwsample", 1500),
    pytest.param("20news", 18846, marks=pytest.mark.long),
]


@pytest.mark.parametrize(("name", "rows"), SETS)
def test_a_real_set_is_read_to_the_last_value(name: str, rows: int, shared: SharedFile) -> None:
    """Every label, index and value equals an independent parse, and the rows are as many as documented."""
    path = shared(f"data/{name}.svm.gz")
    assert detect(path) is FileFormat.SVMLIGHT
    with gzip.open(path, "rt") as lines:
        count = 0
        for line, example in zip(lines, read_examples(path), strict=True):
            count += 1
            label, *pairs = line.split()
            plain = {pair.split(":")[0]: float(pair.split(":")[1]) for pair in pairs}
            assert (example.label, example.features) == (float(label), plain)
    assert count == rows


def test_real_sets_contain_rows_without_features(shared: SharedFile) -> None:
    """20news has some, and they are kept."""
    examples = read_examples(shared("data/20news.svm.gz"))
    assert any(not example.features for example in examples)
