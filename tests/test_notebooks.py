"""Each notebook of the documentation runs from its first cell to its last, as its readers run it."""

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from support.topics import read_all

NOTEBOOKS = sorted((Path(__file__).parent.parent / "docs" / "notebooks").glob("*.ipynb"))
CELL_S = 300
ROWS, FEWER = ":60_000", ":12_000"

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("rows", [FEWER, pytest.param(ROWS, marks=pytest.mark.long)])
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: str(path.stem))
def test_the_notebook_runs(kafka: str, path: Path, rows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a real broker, in a directory of its own; and the outputs that are kept in it are those of its last run.

    Most of its time goes to the libraries that it compares with: by default, they get fewer rows.
    """
    monkeypatch.setenv("STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS", kafka)
    notebook = nbformat.read(path, as_version=4)
    (data,) = [cell for cell in notebook.cells if ROWS in cell.source]
    data.source = data.source.replace(ROWS, rows)
    NotebookClient(
        notebook, timeout=CELL_S, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    assert len(read_all(kafka, "flights-predictions")) == 5_000
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it was: each run would be a change
    if os.environ.get("KEEP_NOTEBOOKS") == "true" and rows == ROWS:
        nbformat.write(notebook, path)
    found, kept = ([_outputs(cell) for cell in each.cells] for each in (notebook, nbformat.read(path, as_version=4)))
    assert found == kept, "the notebook was changed, and not run: `make notebooks`"


def _outputs(cell: Any) -> list[str]:
    """What kinds of outputs a cell has; numbers and plots may differ between machines."""
    return [output.output_type for output in cell.get("outputs", ())]
