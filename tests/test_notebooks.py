"""The notebooks in examples/notebooks/ run from the first cell to the last, and are committed without outputs."""

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


def test_there_are_notebooks():
    assert {path.stem for path in NOTEBOOKS} == {"embed", "fine_tune", "export"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_valid_says_how_to_install_and_has_no_outputs(path):
    notebook = read(path)
    nbformat.validate(notebook)
    first, *others = notebook.cells
    assert first.cell_type == "markdown"
    assert "pip install" in first.source
    for cell in others:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)


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
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert outputs
    # Warnings and logs do not belong into what people read; tensorflow_hub's own, of pkg_resources, cannot be helped.
    notes = [output.text for output in outputs if output.output_type == "stream" and output.name == "stderr"]
    assert [note for note in notes if "pkg_resources" not in note] == []
