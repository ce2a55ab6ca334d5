"""The notebooks in examples/notebooks/ run from the first cell to the last, and are committed with their outputs.

After a change: `jupyter nbconvert --to notebook --execute --inplace FILE`.
"""

import contextlib
import itertools
import os
import re

import pytest

from .support import forking
from .support.data import ROOT
from .support.pages import blocks_of

nbformat = pytest.importorskip("nbformat")

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
NEEDED = {
    "attention": ["matplotlib"],
    "embed": ["matplotlib"],
    "export": ["tensorflow_hub", "tf_keras", "tensorflow_serving"],
    "fine_tune": ["matplotlib", "sklearn"],
    "pretraining": ["matplotlib", "tokenizers"],
    "probing": ["matplotlib", "sklearn"],
    "senses": ["matplotlib", "sklearn"],
    "tokenization": ["tokenizers"],
}
CLASSROOM = {"attention", "senses", "tokenization", "pretraining", "probing"}  # with exercises, of the whole model
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def read(path):
    return nbformat.read(path, as_version=nbformat.NO_CONVERT)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def exercises(notebook):
    """The exercises, and the blocks of their answers."""
    cells = [cell for cell in notebook.cells if cell.source.startswith("### Exercise")]
    return cells, [blocks_of(cell.source, cell.id) for cell in cells]


def assert_similar(printed, expected):
    """Compares two texts. Numbers may differ a little: a probe is trained on floats that depend on the processor."""
    assert NUMBER.sub("0", printed).split() == NUMBER.sub("0", expected).split(), printed
    numbers = [[float(number) for number in NUMBER.findall(text)] for text in (printed, expected)]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.06), printed


def kinds(cell):
    """What a cell gives, but for stderr: the name of each stream, and the types of each other output."""
    found = [output.get("name") or sorted(output.data) for output in cell.outputs if output.get("name") != "stderr"]
    return [kind for kind, _ in itertools.groupby(found)]  # a slow kernel sends one stream in parts


@pytest.mark.parametrize(
    ("printed", "is_similar"), [("a 0.52 3", True), ("a 0.61 3", False), ("a 0.5 4", False), ("b 0.5 3", False)]
)
def test_wrong_answers_are_found(printed, is_similar):
    with contextlib.nullcontext() if is_similar else pytest.raises(AssertionError):
        assert_similar(printed, "a 0.5 3\n")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_valid_and_has_the_outputs_of_one_run(path):
    notebook = read(path)
    nbformat.validate(notebook)
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert any(cell.outputs for cell in cells)
    assert not [output for cell in cells for output in cell.outputs if output.get("name") == "stderr"]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path, tmp_path, reader, monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    for module in NEEDED[path.stem]:
        pytest.importorskip(module)
    # The kernel is a process of its own, which starts elsewhere: a fork of one that has imported TensorFlow.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    if path.stem in CLASSROOM:
        (reader / "all-MiniLM-L6-v2").unlink()
    notebook = read(path)
    cells, (asked, answers) = code_cells(notebook), exercises(notebook)
    assert all(block.output for blocks in answers for block in blocks)
    solved = []  # the cell and the block of each answer
    for question, blocks in zip(asked, answers, strict=True):
        solved += [(nbformat.v4.new_code_cell(block.code), block) for block in blocks]
        place = notebook.cells.index(question) + 1
        notebook.cells[place:place] = [cell for cell, _ in solved[-len(blocks) :]]
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    kernel = client.create_kernel_manager().kernel_spec
    kernel.argv[0] = str(forking.commands() / "python")
    kernel.argv.append("--matplotlib=inline")  # which a new process finds in a variable, before matplotlib is imported
    client.execute()
    for cell, block in solved:
        assert_similar("".join(output.text for output in cell.outputs if output.get("name") == "stdout"), block.output)
    assert [kinds(cell) for cell in cells] == [kinds(cell) for cell in code_cells(read(path))]
    outputs = [output for cell in cells for output in cell.outputs]
    # Warnings and logs do not belong into what people read; tensorflow_hub's own, of pkg_resources, cannot be helped.
    notes = [output.text for output in outputs if output.output_type == "stream" and output.name == "stderr"]
    assert [note for note in notes if "pkg_resources" not in note] == []
