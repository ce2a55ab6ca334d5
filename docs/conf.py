"""How Sphinx builds the documentation: `make docs`. Nothing in it, nor in what it builds, needs a network."""

import inspect
import os
import re

from sphinx.util.inspect import stringify_signature

os.environ["KERAS_BACKEND"] = "tensorflow"  # some of what the reference names is there with TensorFlow only

import keras_bert

project = "keras_bert"
version = release = keras_bert.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "figures"]  # figures: included by docs/benchmarks.md
nitpicky = True
smartquotes = False  # would make closing ones of opening ones before code
# Types of other libraries have pages elsewhere. References to our own names must be right.
nitpick_ignore_regex = [("py:.*", r"(?!keras_bert\.).*")]

myst_heading_anchors = 3

default_role = "literal"  # docstrings have single backticks around code
autodoc_typehints = "none"  # signatures would be longer than the text; docstrings say what is taken
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "exclude-members": "FILES, call, build, get_config, from_config"}
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_custom_sections = [("Call arguments", "params_style")]

html_theme = "furo"
html_title = "keras_bert"
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_copyright = False

_SECTIONS = {"Args:", "Attributes:", "Call arguments:", "Example:", "Examples:", "Raises:", "Returns:", "Warns:"}


def _with_lists(lines):
    """Docstrings enumerate in indented lines that end with semicolons; reStructuredText wants a list, between blanks.

    Args:
        lines: of a docstring.
    """
    found, i = [], 0
    while i < len(lines):
        found.append(lines[i])
        block = _below(lines, i)
        i += 1
        if not block or lines[i - 1].strip() in _SECTIONS:
            continue
        base = _indent(block[0])
        starts = [0, *(k for k in range(1, len(block)) if _indent(block[k]) == base and block[k - 1].endswith(";"))]
        is_list = block[0].lstrip().startswith("- ")
        if not is_list and (len(starts) == 1 or not lines[i - 1].endswith(":")):
            continue
        if not is_list:
            block = [" " * base + ("- " if k in starts else "  ") + line.strip() for k, line in enumerate(block)]
        found += ["", *block]
        i += len(block)
        if i < len(lines) and lines[i]:
            found.append("")
    return found


def _below(lines, i):
    """The lines behind one that are further in."""
    end = i + 1
    while end < len(lines) and lines[end].strip() and _indent(lines[end]) > _indent(lines[i]):
        end += 1
    block = lines[i + 1 : end]
    return block if block and _indent(block[0]) == min(map(_indent, block)) else []


def _indent(line):
    return len(line) - len(line.lstrip())


def _signature(app, what, name, obj, options, arguments, returns):
    """Of a Keras class that of its constructor: Keras hides it behind a `__new__` that takes anything."""
    if what == "class" and arguments == "(*args, **kwargs)":
        _, *parameters = inspect.signature(obj.__init__).parameters.values()
        arguments = stringify_signature(inspect.Signature(parameters), show_annotation=False)
    return arguments, returns


def _docstring(app, what, name, obj, options, lines):
    lines[:] = _with_lists(lines)


def _with_badges(app, name, source):
    """The notebooks' table, with a link to open each on Colab, where GitHub builds this and so has the notebooks."""
    if name == "notebooks" and (repository := os.environ.get("GITHUB_REPOSITORY")):
        place = f"https://colab.research.google.com/github/{repository}/blob/main/examples/notebooks"
        badge = "[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]"
        source[0] = re.sub(r"^\| `(\w+)` \|", rf"| `\1` {badge}({place}/\1.ipynb) |", source[0], flags=re.MULTILINE)


def setup(app):
    app.connect("source-read", _with_badges)
    app.connect("autodoc-process-signature", _signature)
    app.connect("autodoc-process-docstring", _docstring, priority=400)  # before napoleon's
