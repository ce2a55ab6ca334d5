"""The notebooks in examples/notebooks/ run from the first cell to the last, and are committed with their outputs.

After a change: `jupyter nbconvert --to notebook --execute --inplace FILE`.
"""

import os

import pytest

from .support.data import ROOT

nbformat = pytest.importorskip("nbformat")

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
NEEDED = {
    "embed": ["matplotlib"],
    "export": ["tensorflow_hub", "tf_keras", "tensorflow_serving"],
    "fine_tune": ["matplotlib", "sklearn"],
}


def read(path):
    return nbformat.read(path, as_version=nbformat.NO_CONVERT)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds(cell):
    """What a cell gives, but for stderr: the name of each stream, and the types of each other output."""
    return [output.get("name") or sorted(output.data) for output in cell.outputs if output.get("name") != "stderr"]


def test_there_are_notebooks():
    assert {path.stem for path in NOTEBOOKS} == {"embed", "fine_tune", "export"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_valid_says_how_to_install_and_has_outputs(path):
    notebook = read(path)
    nbformat.validate(notebook)
    first = notebook.cells[0]
    assert first.cell_type == "markdown"
    assert "pip install" in first.source
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert sum(len(cell.outputs) for cell in cells) >= 3
    assert not [output for cell in cells for output in cell.outputs if output.get("name") == "stderr"]
    assert path.stat().st_size < 50_000


@pytest.mark.slow
@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    for module in NEEDED[path.stem]:
        pytest.importorskip(module)
    # The kernel is a process of its own, which starts elsewhere.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    notebook = read(path)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = code_cells(notebook)
    assert [kinds(cell) for cell in cells] == [kinds(cell) for cell in code_cells(read(path))]
    outputs = [output for cell in cells for output in cell.outputs]
    # Warnings and logs do not belong into what people read; tensorflow_hub's own, of pkg_resources, cannot be helped.
    notes = [output.text for output in outputs if output.output_type == "stream" and output.name == "stderr"]
    assert [note for note in notes if "pkg_resources" not in note] == []
