"""The files of the server import each other one way."""

import ast
import graphlib
from pathlib import Path

import keras_bert.server

PREFIX = "keras_bert.server"


def imported(path):
    """The files of the server that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == PREFIX:
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module.startswith(PREFIX + "."):
            yield node.module.removeprefix(PREFIX + ".")


def test_there_is_no_circle():
    files = Path(keras_bert.server.__file__).parent.glob("*.py")
    graph = {path.stem: set(imported(path)) for path in files}
    assert sum(map(len, graph.values())) > 20
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError
