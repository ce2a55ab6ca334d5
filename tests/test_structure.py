"""The package as a whole: what it exports, what importing it costs, and which way its imports point."""

import ast
import functools
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import keras
import pytest

import keras_bert
from keras_bert.cli.finetune import finetune
from keras_bert.task_table import TASKS
from keras_bert.tasks.kinds import Kind
from keras_bert.tasks.registry import FINE_TUNING
from keras_bert.tasks.task import BertTask

PACKAGE = Path(keras_bert.__file__).parent

# Data walks through the house one way: a part may import from those before it, never from those after it.
ORDER = [
    "counted",
    "task_table",
    "tensors",
    "extras",
    "choices",
    "registered",
    "undocumented",
    "processors",
    "files",
    "processes",
    "progress",
    "output_files",
    "pipelines",
    "data",
    "sizes",
    "config",
    "shapes",
    "recipe",
    "presets",
    "formats",
    "text",
    "convert",
    "publishing",
    "optimizers",
    "encoder",
    "inference",
    "tasks",
    "pretraining",
    "embedding",
    "search",
    "inspection",
    "training",
    "saved_model",
    "runtimes",
    "visualize",
    "server",
    "cli",
]


def test_public_names():
    assert sorted(keras_bert.__all__) == [
        "AdamW",
        "BertClassifier",
        "BertConfig",
        "BertEncoder",
        "BertMaskedLM",
        "BertMultipleChoice",
        "BertNextSentence",
        "BertPreprocessor",
        "BertQuestionAnswerer",
        "BertReranker",
        "BertSentenceEncoder",
        "BertSparseEncoder",
        "BertTokenClassifier",
        "CRF",
        "HubLayer",
    ]
    for name in keras_bert.__all__:
        assert getattr(keras_bert, name).__name__ == name
    assert set(keras_bert.__all__) <= set(dir(keras_bert))


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.model)
def test_a_line_of_the_table_of_tasks_says_what_the_task_is(task):
    model = getattr(keras_bert, task.model)
    assert (model.__module__, model.HEAD) == (f"keras_bert.tasks.{task.module}", task.head)
    *file, kind = task.kind.split(".")
    module = importlib.import_module(".".join(["keras_bert.tasks", *file]))
    assert issubclass(getattr(module, kind), Kind)
    assert task.command in (None, *finetune.commands)
    for page in ("README.md", "docs/api/models.md", "docs/api/surface.md"):
        assert task.model in (PACKAGE.parent / page).read_text(), page


def test_every_command_that_fine_tunes_has_a_task():
    assert {*finetune.commands} == {task.command for task in TASKS} - {None} == {*FINE_TUNING}


def test_importing_loads_nothing_heavy():
    code = "import sys, keras_bert; print([m for m in ('tensorflow', 'keras', 'numpy') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert result.stdout.strip() == "[]"


def test_imports_point_one_way():
    checked = 0
    for path in PACKAGE.rglob("*.py"):
        here = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if here == "__init__":
            continue
        for node in ast.walk(_tree(path)):
            for module in _modules(node):
                if module.startswith("keras_bert."):
                    there = module.split(".")[1]
                    assert ORDER.index(there) <= ORDER.index(here), f"{path.relative_to(PACKAGE)} imports {module}"
                    checked += 1
    assert checked > 20


def test_no_module_imports_itself_by_way_of_others():
    """At module level or inside functions. Imports for type checkers count only in formats."""
    paths = {_module_name(path): path for path in PACKAGE.rglob("*.py")}
    for room, with_types in (("keras_bert", False), ("keras_bert.formats", True)):
        imports = {
            name: {each for each in _run_imports(_tree(path), paths, with_types) if each in paths and room in each}
            for name, path in paths.items()
            if room in name
        }
        assert sum(map(len, imports.values())) > (50 if with_types else 300)
        in_a_circle = sorted(name for name in imports if name in _reached(imports, name))
        assert in_a_circle == []


def test_the_test_for_circles_sees_them():
    imports = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}
    assert [name for name in imports if name in _reached(imports, name)] == ["b", "c"]
    source = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import x
def function():
    import y
    from keras_bert import files
    from keras_bert.files import find
"""
    found = _run_imports(ast.parse(source), {"keras_bert.files"})
    assert sorted(found) == ["keras_bert.files", "keras_bert.files", "typing", "y"]


def _module_name(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def _tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def _run_imports(tree, modules, with_types=False):
    """The modules that a file's imports name when they run; `from a import b` names `a.b` if that is a module."""
    if not with_types and isinstance(tree, ast.If) and ast.unparse(tree.test) == "TYPE_CHECKING":
        return
    if isinstance(tree, ast.Import):
        yield from (each.name for each in tree.names)
    if isinstance(tree, ast.ImportFrom):
        inside = [f"{tree.module}.{each.name}" for each in tree.names]
        yield from (name if name in modules else tree.module for name in inside)
    for node in ast.iter_child_nodes(tree):
        yield from _run_imports(node, modules, with_types)


def _reached(imports, start):
    """The modules that importing `start` imports, directly or not."""
    reached, waiting = set(), [start]
    while waiting:
        new = imports[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached


def _modules(node):
    if isinstance(node, ast.Import):
        return [name.name for name in node.names]
    if isinstance(node, ast.ImportFrom) and node.module == "keras_bert":
        return [f"keras_bert.{name.name}" for name in node.names if name.name in ORDER]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return []


def test_the_page_on_the_architecture_names_files_that_exist():
    page = (PACKAGE.parent / "docs/architecture.md").read_text(encoding="utf-8")
    named = {name.removeprefix("keras_bert/") for name in re.findall(r"`([\w/]+(?:\.py|/))`", page)}
    assert len(named) > 40
    assert [name for name in sorted(named) if not (PACKAGE / name).exists()] == []
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert rooms <= {name.rstrip("/") for name in named}


def test_the_run_of_everything_names_files_that_exist():
    """pytest runs nothing of a part if one of its files is missing."""
    root = PACKAGE.parent
    commands = (root / ".ci/run").read_text(encoding="utf-8")
    words = re.findall(r"(?<![\w*/=\"])tests/[\w/{},.*\[\]]+", commands)
    shell = ["bash", "-c", "printf '%s\\n' " + " ".join(words)]
    paths = subprocess.run(shell, cwd=root, capture_output=True, text=True, check=True).stdout.split()
    assert len(paths) > len(words) > 5
    assert [path for path in paths if not (root / path).exists()] == []


def test_what_is_undocumented_stands_in_one_file():
    """Private and experimental names of Keras and TensorFlow, and modules that they do not document."""
    names, classes = {path: set(_private_names(_tree(path))) for path in PACKAGE.rglob("*.py")}, _names_of_keras()
    elsewhere = set().union(*names.values()) - _private_names_of_keras(*KERAS_CLASSES)
    found = []
    for path in sorted(names):
        if path.name != "undocumented.py":
            ours = {name: private for (module, name), private in classes.items() if module == _module_name(path)}
            calls = sorted(set(_undocumented(_tree(path), names[path] | elsewhere, ours)))
            found += [f"{path.relative_to(PACKAGE)}, line {line}: {name}" for line, name in calls]
    assert not found, f"only keras_bert/undocumented.py may call it: {'; '.join(found)}"
    assert len(classes) > 40


def test_the_test_for_what_is_undocumented_sees_it():
    source = """
import keras.src.losses
from tensorflow.python.framework import ops
from tensorflow_text.python.ops import sentencepiece_tokenizer
from tensorflow.core.protobuf import saved_model_pb2
class Model(keras.Model):
    def _symbolic_build(self):
        self._jit_compile = self._ours = row._replace(a=1)
tf.data.experimental.assert_cardinality(2)
strategy.experimental_local_results(tf.__internal__.x)
variable._initializer = layer._ours._flatten_layers()
vars(model)["_loss_tracker"] = None
"""
    tree = ast.parse(source)
    classes = {"Model": _private_names_of_keras(keras.Model)}
    found = sorted(set(_undocumented(tree, set(_private_names(tree)), classes)))
    assert found == [
        (2, "keras.src.losses"),
        (3, "tensorflow.python.framework"),
        (4, "tensorflow_text.python.ops"),
        (7, "_symbolic_build in Model"),
        (8, "_jit_compile in Model"),
        (9, "tf.data.experimental"),
        (10, "strategy.experimental_local_results"),
        (10, "tf.__internal__"),
        (11, "layer._ours._flatten_layers"),
        (11, "variable._initializer"),
        (12, "'_loss_tracker'"),
    ]


KERAS_CLASSES = (keras.Layer, keras.Model, keras.Variable, keras.Loss, keras.Metric, keras.optimizers.Optimizer)
# `tensorflow.core` has formats of files, which TensorFlow keeps readable.
_MODULES = re.compile(r"keras\.src\b|tensorflow\.(?!core\.)|tensorflow_text\.")


def _undocumented(tree, own, classes):
    """The undocumented calls of a module, as lines and names.

    Args:
        tree: the module.
        own: private names that are not Keras's.
        classes: the names of the module's classes that are of Keras -> the private names that Keras itself uses there.
    """
    keras_names = _private_names_of_keras(*KERAS_CLASSES)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, each.name) for each in node.names if _MODULES.match(each.name))
        if isinstance(node, ast.ImportFrom) and _MODULES.match(node.module):
            yield node.lineno, node.module
        if isinstance(node, ast.Attribute) and re.match("experimental|__internal__", node.attr):
            yield node.lineno, ast.unparse(node)
        if isinstance(node, ast.Attribute) and re.match("_[a-z]", node.attr):
            of_object = ast.unparse(node.value) not in ("self", "cls")  # for these, see below
            if of_object and node.attr not in own | {"_replace", "_asdict", "_fields", "_exit"}:
                yield node.lineno, ast.unparse(node)
        if isinstance(node, ast.Constant) and node.value in keras_names:
            yield node.lineno, repr(node.value)
        if isinstance(node, ast.ClassDef):
            for each in ast.walk(node):
                is_self = isinstance(each, ast.Attribute) and ast.unparse(each.value) in ("self", "cls", "super()")
                name = each.attr if is_self else getattr(each, "name", None)
                if isinstance(name, str) and name in classes.get(node.name, ()):
                    yield each.lineno, f"{name} in {node.name}"


def _private_names(tree):
    """The private names that a module defines: functions, methods, attributes of classes and of `self`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.name
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            yield node.attr


def _names_of_keras():
    """Classes of the package that are classes of Keras, or bases of one -> the private names that Keras uses there."""
    classes = set()
    for each in pkgutil.walk_packages([str(PACKAGE)], "keras_bert."):
        if "__main__" not in each.name:
            module = importlib.import_module(each.name)
            classes.update(each for each in vars(module).values() if inspect.isclass(each))
    names = {}
    for each in classes:
        bases = [base for base in each.__mro__ if str(base.__module__).startswith("keras.")]
        for part in each.__mro__ if bases else ():
            if part.__module__.startswith("keras_bert."):
                key = part.__module__, part.__name__
                names[key] = names.get(key, set()) | _private_names_of_keras(*bases)
    return names


def _private_names_of_keras(*classes):
    """The private methods and attributes of classes of Keras."""
    bases = {base for each in classes for base in each.__mro__ if base.__module__.startswith("keras.")}
    return set().union(*map(_private_names_in, bases))


@functools.cache
def _private_names_in(base):
    names = (*vars(base), *re.findall(r"self\.(\w+)", inspect.getsource(base)))
    return {name for name in names if re.match("_[a-z]", name)}


def test_only_tasks_know_which_task_it_is():
    """Elsewhere, no check asks for the class of a task: its methods are called."""
    classes = {
        "BertPretrainer",
        *(name for name in keras_bert.__all__ if issubclass(getattr(keras_bert, name), BertTask)),
    }
    checked = 0
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts[0] == "tasks":
            continue
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
                if path.name == "evaluation.py":
                    continue  # asks whether it is a task at all
                named = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)} & classes
                assert not named, f"{path.relative_to(PACKAGE)}, line {node.lineno}, asks for {', '.join(named)}"
                checked += 1
    assert checked > 50


def test_tests_share_helpers_and_fixtures_in_one_place():
    """Helpers lie in tests/support, fixtures in a conftest.py, and where real data lie is written once."""
    tests = Path(__file__).parent
    for path in sorted(tests.rglob("*.py")):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(tests)
        if path == Path(__file__):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.level:
                parts = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
                shared = [part for part in parts if part == "conftest" or part.startswith("test_")]
                assert not shared, f"tests/{name} imports from {shared[0]}"
        assert "F811" not in text, f"tests/{name} imports a fixture"
        assert "shared/data" not in text or name == Path("support/data.py"), f"tests/{name} spells where real data lie"
