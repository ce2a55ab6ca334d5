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
from keras_bert.task_table import TASKS
from keras_bert.tasks.kinds import Kind

PACKAGE = Path(keras_bert.__file__).parent

PAGE = (PACKAGE.parent / "docs/architecture.md").read_text(encoding="utf-8")
# Data walks through the house one way: a folder may import from those above it in the page's first table.
ORDER = re.findall(r"`(?:keras_bert/)?(\w+)/`", PAGE.partition("\nInside of")[0])


def test_public_names():
    for name in keras_bert.__all__:
        assert getattr(keras_bert, name).__name__ == name
    assert set(keras_bert.__all__) <= set(dir(keras_bert))


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.model)
def test_a_line_of_the_table_of_tasks_says_what_the_task_is(task):
    model = getattr(keras_bert, task.model)
    assert model.__module__ == f"keras_bert.tasks.{task.module}"
    *file, kind = task.kind.split(".")
    module = importlib.import_module(".".join(["keras_bert.tasks", *file]))
    assert issubclass(getattr(module, kind), Kind)
    file, answerer = task.answerer.split(".")
    assert issubclass(model, getattr(importlib.import_module(f"keras_bert.answers.{file}"), answerer))
    for page in ("README.md", "docs/api/models.md", "docs/api/surface.md"):
        assert task.model in (PACKAGE.parent / page).read_text(), page


@pytest.mark.parametrize("name", ["", ".runtime_table", ".runtimes.onnx", ".runtimes.openvino", ".engines.loading"])
def test_importing_loads_nothing_heavy(name):
    heavy = ("tensorflow", "keras", "onnx", "onnxruntime", "openvino", *(() if "s." in name else ("numpy",)))
    code = f"import sys, keras_bert{name}; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert result.stdout.strip() == "[]"


def test_no_conftest_imports_tensorflow():
    """pytest-xdist's first process runs no test, but reads those of the directories that it is given."""
    paths = (PACKAGE.parent / "tests").rglob("conftest.py")
    modules = [".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in paths]
    assert len(modules) > 10
    code = f"import sys, {', '.join(modules)}; print([m for m in ('keras', 'tensorflow') if m in sys.modules])"
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, check=True, capture_output=True, text=True, cwd=PACKAGE.parent)
    assert result.stdout.strip() == "[]"


def test_imports_point_one_way():
    checked = 0
    for path in PACKAGE.rglob("*/*.py"):
        here = path.relative_to(PACKAGE).parts[0]
        for module in _imports(_tree(path), {f"keras_bert.{room}" for room in ORDER}, with_types=True):
            there = module.partition("keras_bert.")[2].partition(".")[0]
            if there in ORDER:
                assert ORDER.index(there) <= ORDER.index(here), f"{path.relative_to(PACKAGE)} imports {module}"
                checked += 1
    assert checked > 20


def test_no_module_imports_itself_by_way_of_others():
    """At module level or inside functions. Imports for type checkers count only in formats."""
    paths = {_module_name(path): path for path in PACKAGE.rglob("*.py")}
    for room, with_types in (("keras_bert", False), ("keras_bert.formats", True)):
        imports = {
            name: {each for each in _imports(_tree(path), paths, with_types) if each in paths and room in each}
            for name, path in paths.items()
            if room in name
        }
        assert sum(map(len, imports.values())) > (50 if with_types else 300)
        assert sorted(name for name in imports if name in _reached(imports, name)) == []


def _module_name(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def _tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def _imports(tree, modules, with_types=False):
    """The modules that a file's imports name when they run; `from a import b` names `a.b` if that is a module."""
    if not with_types and isinstance(tree, ast.If) and ast.unparse(tree.test) == "TYPE_CHECKING":
        return
    if isinstance(tree, ast.Import):
        yield from (each.name for each in tree.names)
    if isinstance(tree, ast.ImportFrom):
        inside = [f"{tree.module}.{each.name}" for each in tree.names]
        yield from (name if name in modules else tree.module for name in inside)
    for node in ast.iter_child_nodes(tree):
        yield from _imports(node, modules, with_types)


def _reached(imports, start):
    """The modules that importing `start` imports, directly or not."""
    reached, waiting = set(), [start]
    while waiting:
        new = imports[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached


def test_the_page_on_the_architecture_names_files_that_exist():
    named = {name.removeprefix("keras_bert/") for name in re.findall(r"`([\w/]+(?:\.py|/))`", PAGE)}
    assert len(named) > 40
    assert [name for name in sorted(named) if not (PACKAGE / name).exists()] == []
    assert sorted(ORDER) == sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())


def test_the_run_of_everything_names_files_that_exist():
    """pytest runs nothing of a part if one of its files is missing."""
    root = PACKAGE.parent
    commands = (root / ".ci/run").read_text(encoding="utf-8")
    words = re.findall(r"(?<![\w*/=\"])tests/[\w/{},.*\[\]]+", commands)
    shell = ["bash", "-c", "printf '%s\\n' " + " ".join(words)]
    paths = subprocess.run(shell, cwd=root, capture_output=True, text=True, check=True).stdout.split()
    assert len(paths) > len(words) > 5
    assert [path for path in paths if not (root / path).exists()] == []


# `tensorflow.core` has formats of files, which TensorFlow keeps readable.
_UNDOCUMENTED = re.compile(r"keras\.src\b|tensorflow\.(?!core\.)|tensorflow_text\.")
_DOCUMENTED = {"_replace", "_asdict", "_fields", "_exit", "_value_"}


def test_what_is_undocumented_stands_in_one_file():
    """Private and experimental names of Keras and TensorFlow, and modules that they do not document."""
    names = {path: set(_private_names(_tree(path))) for path in PACKAGE.rglob("*.py")}
    of_keras = _of_keras(*KERAS_CLASSES)
    own = set().union(*names.values()) - of_keras | _DOCUMENTED
    found = []
    for path in sorted(names):
        if path.name != "undocumented.py":
            calls = sorted(set(_undocumented(_tree(path), names[path] | own, of_keras)))
            found += [f"{path.relative_to(PACKAGE)}, line {line}: {name}" for line, name in calls]
    assert not found, f"only keras_bert/undocumented.py may call it: {'; '.join(found)}"


def test_the_test_for_what_is_undocumented_sees_it():
    lines = [
        "import keras.src.losses",
        "from tensorflow.python.framework import ops",
        "tf.data.experimental.assert_cardinality(2)",
        "tf.__internal__.x",
        "layer._ours._flatten_layers()",
        "vars(model)['_loss_tracker'] = None",
        "variable._initializer = 1",
        "row._replace(a=1), layer._ours",
    ]
    found = _undocumented(ast.parse("\n".join(lines)), {"_ours", *_DOCUMENTED}, {"_loss_tracker"})
    assert sorted({line for line, _ in found}) == [1, 2, 3, 4, 5, 6, 7]


KERAS_CLASSES = (keras.Layer, keras.Model, keras.Variable, keras.Loss, keras.Metric, keras.optimizers.Optimizer)


def _undocumented(tree, own, of_keras):
    """The undocumented calls of a module, as lines and names; `own` are private names of ours, `of_keras` Keras's."""
    for node in ast.walk(tree):
        modules = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module] if isinstance(node, ast.ImportFrom) else []
        yield from ((node.lineno, name) for name in modules if _UNDOCUMENTED.match(name))
        if isinstance(node, ast.Attribute) and re.match("experimental|__internal__", node.attr):
            yield node.lineno, ast.unparse(node)
        is_private = isinstance(node, ast.Attribute) and re.match("_[a-z]", node.attr) and node.attr not in own
        if is_private and ast.unparse(node.value) not in ("self", "cls"):  # for these, see below
            yield node.lineno, ast.unparse(node)
        if isinstance(node, ast.Constant) and node.value in of_keras:
            yield node.lineno, repr(node.value)


def _private_names(tree):
    """The private names that a module defines: functions, methods, attributes of classes and of `self`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.name
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            yield node.attr


def test_no_class_of_ours_uses_private_names_of_its_bases_in_keras():
    checked = 0
    for module in pkgutil.walk_packages([str(PACKAGE)], "keras_bert."):
        names = vars(importlib.import_module(module.name)) if "__main__" not in module.name else {}
        for each in filter(inspect.isclass, names.values()):
            private = _of_keras(each)
            for part in each.__mro__ if private else ():
                if part.__module__.startswith("keras_bert.") and part.__module__ != "keras_bert.undocumented":
                    assert not _used(part) & private, f"{part.__module__}.{part.__name__}: {_used(part) & private}"
                    checked += 1
    assert checked > 40


@functools.cache
def _used(kind):
    """The private names that a class defines, or reads of `self`."""
    pairs = re.findall(r"\b(?:self|cls|super\(\))\.(_[a-z]\w*)|\bdef (_[a-z]\w*)", inspect.getsource(kind))
    return {name for pair in pairs for name in pair if name}


@functools.cache
def _of_keras(*kinds):
    """The private methods and attributes of classes of Keras, or of those that are bases of these classes."""
    bases = {base for each in kinds for base in each.__mro__ if str(base.__module__).startswith("keras.")}
    return set().union(*map(_private_names_in, bases))


@functools.cache
def _private_names_in(base):
    names = (*vars(base), *re.findall(r"self\.(\w+)", inspect.getsource(base)))
    return {name for name in names if re.match("_[a-z]", name)}
