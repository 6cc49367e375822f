"""What is said of tables that are nearly right: names, labels in words, other delimiters; and what of it is read."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from support.file_formats import detect, flat_examples, shape_of

from stream_apple.errors import InputFileError
from stream_apple.files import BY_NAME, FileShape, read_examples
from stream_apple.files.detection import FileFormat
from stream_apple.nearest_names import nearest_names
from stream_apple.records.message.example import Example

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Put text into a file whose name says nothing."""

    def write(content: str) -> Path:
        path = tmp_path / "table"
        path.write_text(content)
        return path

    return write


def fault(path: Path, shape: FileShape = BY_NAME) -> str:
    """What is wrong with the file."""
    with pytest.raises(InputFileError) as error:
        list(read_examples(path, shape))
    return str(error.value).removeprefix(str(path))


MANY = ",".join(["label", *(f"column_{number}" for number in range(60)), "Yearly_Income", "age"])


def test_of_many_columns_the_nearest_are_named(write: Write) -> None:
    """Not the first ones, which fill the line before the wanted one comes."""
    path = write(f"{MANY}\n" + "1," * 62 + "1\n")
    found = fault(path, shape_of(id="yearly_incme"))
    assert found == ":1: expected a column 'yearly_incme', found 63 others, the nearest 'Yearly_Income'"
    found = fault(path, shape_of(timestamp="happened"))
    assert found == ":1: expected a column 'happened', found 63 others, from 'Yearly_Income' to 'label'"
    path = write(MANY.replace("label,", "Label,") + "\n" + "1," * 62 + "1\n")
    assert fault(path).endswith("found 63 others, the nearest 'Label'")


def test_the_nearest_name_may_be_in_capitals() -> None:
    """Case decides nothing; a name that is far off has none."""
    assert nearest_names("AGE", ["name", "age", "Ages"], 2) == ["age", "Ages"]
    assert nearest_names("zip", ["name", "age"]) == []


def test_labels_may_be_true_or_false(write: Write, tmp_path: Path) -> None:
    """In any case, as a table writes them."""
    expected = [Example(label, 1.0, None, {"on=x": 1.0}) for label in (1.0, 0.0, 1.0)]
    assert flat_examples(write("label,on\nTrue,x\nfalse,x\nTRUE,x\n")) == expected
    parquet.write_table(pa.table({"label": [True, False, True], "on": ["x"] * 3}), tmp_path / "parquet")
    assert flat_examples(tmp_path / "parquet") == expected


@pytest.mark.parametrize("label", ["yes", "no", "Y", "spam", "inf"])
def test_labels_in_words_are_refused_with_what_to_do(label: str, write: Write) -> None:
    """Which of them is 1 is not for us to guess."""
    found = fault(write(f"label,a\n1,2\n{label},2\n"))
    assert "true or false as 'label' (1 for yes, 0 for no; classes are 0, 1, 2 ...; " in found
    assert "--label-map numbers words, as in no=0,yes=1)" in found
    assert found.endswith(f'found "{label}"')


def test_semicolons_may_be_between_the_cells(write: Write) -> None:
    """If the first row has neither comma nor tab."""
    path = write('label;city;note\n1;Rome;"a;b"\n0;Oslo, Norway;1,5 and 2\n')
    assert detect(path) is FileFormat.CSV
    assert [example.features for example in flat_examples(path)] == [
        {"city=Rome": 1.0, "note=a;b": 1.0},
        {"city=Oslo, Norway": 1.0, "note=1,5 and 2": 1.0},
    ]
    path = write("label,a;b\n1,2\n")
    assert [example.features for example in flat_examples(path)] == [{"a;b": 2.0}], "as it was"


def test_decimal_commas_are_refused_with_what_to_do(write: Write) -> None:
    """They would be a category each; whoever wants that says so."""
    path = write("label;age;code\n1;3,5;1,2\n0;4;x\n")
    assert fault(path) == (
        ":2: expected numbers with a decimal point, and no other sign, in column 'age' (--categories age makes it "
        "categories), found '3,5'"
    )
    examples = flat_examples(path, shape_of(categories=("age",)))
    assert examples[0].features == {"age=3,5": 1.0, "code=1,2": 1.0}


@pytest.mark.parametrize("cell", ["1,000", "-12,345,678.5", "5%", "0.5 %", "1,000%"])
def test_numbers_with_other_signs_are_refused(write: Write, cell: str) -> None:
    """Like those with a decimal comma; between commas that is none."""
    path = write(f'label,a,b\n1,"{cell}",2\n0,7,"3,5"\n')
    found = fault(path)
    assert found.startswith(":2: expected numbers with a decimal point, and no other sign, in column 'a'")
    assert found.endswith(f"found '{cell}'")
    examples = flat_examples(path, shape_of(categories=("a",)))
    assert [example.features for example in examples] == [{f"a={cell}": 1.0, "b=2": 1.0}, {"a=7": 1.0, "b=3,5": 1.0}]


def test_spaces_round_a_cell_are_not_part_of_it(write: Write) -> None:
    """Not of a name, a number, a category or a label, before or behind it."""
    path = write("label , a ,b\n 1 , 2 , x \n0,3,x\n")
    assert [(example.label, example.features) for example in flat_examples(path)] == [
        (1.0, {"a": 2.0, "b=x": 1.0}),
        (0.0, {"a": 3.0, "b=x": 1.0}),
    ]
