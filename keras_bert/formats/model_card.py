"""The model card (README.md): facts from the files, from the training, and what the user should add.

A card that somebody has edited is never replaced: its last line, a comment, has the digest of what stands above it.
"""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from keras_bert import files
from keras_bert.config import BertConfig
from keras_bert.counted import listed
from keras_bert.formats import hugging_face
from keras_bert.formats.row_translator import table_of
from keras_bert.head_table import HEADS
from keras_bert.task_table import OF_HEAD, TASKS, Task

FILE = "README.md"
_MARK = "<!-- keras_bert wrote this card, and replaces it unless you edit it: {digest} -->\n"
_FRONT_MATTER = re.compile(r"\A---\n(.*?)^---$", re.DOTALL | re.MULTILINE)
_LICENCE = re.compile(r"^license: *['\"]?([\w.+-]+)", re.MULTILINE)
_MOST_LABELS = 100
_ADVICE = """\
Before you share it, say what it is for, what its limits are, what it was trained on, and its licence.

"""


@dataclass(frozen=True)
class Training:
    """What a run knows of the model that it made."""

    base: str | Path | None = None  # the preset that it started from; None: new weights
    measures: Mapping[str, float] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)  # data and recipe


def write(
    directory: str | Path,
    config: BertConfig,  # of the encoder
    heads: Collection[str],
    *,
    task: str | None = None,  # the class here; by default that of the heads
    labels: Sequence[str] | None = None,
    reads_pairs: bool = False,  # whether it is a classifier of pairs
    library: str | None = None,  # the class of sentence-transformers that reads it
    note: str = "",  # a paragraph on what `transformers` does not compute
    licence: str | None = None,  # its name on the Hub
    training: Training | None = None,
) -> None:
    """Writes the card of a model, unless there is one that somebody has edited."""
    path = Path(directory) / FILE
    if path.exists() and not _is_unedited(path):
        return
    training = training or Training()
    head = next((name for name in HEADS if name in heads and name in OF_HEAD), "")
    row = next((each for each in TASKS if each.model == task), None) or OF_HEAD.get(head)
    name = row.model if row else "BertEncoder"
    base = str(training.base)
    entries = {
        "license": licence,
        "base_model": base.removeprefix("hf://") if base.startswith("hf://") else None,
        "library_name": "sentence-transformers" if library else "keras_bert" if note else "transformers",
        "pipeline_tag": row.pipeline if row else "feature-extraction",
        "tags": ["keras_bert", config.family],
    }
    labels = labels if labels and any(HEADS[each].has_labels for each in heads) else ()
    parts = [
        "---\n" + "".join(f"{key}:{_yaml(value)}\n" for key, value in entries.items() if value) + "---\n",
        f"# A {name} ({config.family})\n",
        _facts(name, config, heads, labels),
        f"Read it with `keras_bert`:\n\n    from keras_bert import {name}",
        f'    model = {name}.from_preset("this directory")',
        _call(row, reads_pairs),
        _other_reader(config, heads, library),
    ]
    parts += [note] * bool(note)
    if training.measures:
        rows = [[name, f"{value:.4f}"] for name, value in training.measures.items()]
        parts.append(f"## Measures\n\n{table(['measure', 'value'], rows)}\n")
    if training.settings:
        parts.append(f"## Training\n\n{table(['setting', 'value'], [*training.settings.items()])}\n")
    parts.append(_ADVICE)
    text = "\n".join(parts)
    files.write_texts(directory, {FILE: text + _MARK.format(digest=_digest(text))})


def _facts(name: str, config: BertConfig, heads: Collection[str], labels: Sequence[str]) -> str:
    facts = {
        "class": name,
        "head": ", ".join(each.purpose for key, each in HEADS.items() if key in heads) or "none",
        "labels": _some(labels),
        "family": config.family,
        "layers": config.num_layers,
        "hidden size": config.hidden_size,
        "attention heads": config.num_heads,
        "feed-forward size": config.intermediate_size,
        "vocabulary": f"{config.vocab_size:,} tokens",
        "longest sequence": f"{config.max_positions} tokens",
    }
    return table(["", ""], [[key, value] for key, value in facts.items() if value]) + "\n"


def _call(row: Task | None, reads_pairs: bool) -> str:
    call = f"    model.{row.call}\n" if row else ""
    return call.replace('"a text"', '"a text", "another"') if reads_pairs else call


def _other_reader(config: BertConfig, heads: Collection[str], library: str | None) -> str:
    """Says how to read the model with PyTorch."""
    title = "sentence-transformers" if library else "transformers"
    architecture = hugging_face.model_values(config, heads)["architectures"][0] if heads else "AutoModel"
    reader = library or architecture
    load = library or f"{architecture}.from_pretrained"
    lacks_pooler = bool(table_of(config).pooler) and not heads and not config.pooler
    options = ", add_pooling_layer=False" * lacks_pooler
    return f"""\
or with `{title}` (PyTorch):

    from {title.replace("-", "_")} import {reader}
    model = {load}("this directory"{options})
"""


def licence_of(directory: Path) -> str | None:
    """Reads the licence in a model's card; None if it has none."""
    path = directory / FILE
    text = files.read_whole(path).decode(errors="replace") if path.is_file() else ""
    front = _FRONT_MATTER.match(text)
    found = front and _LICENCE.search(front[1])
    return found[1] if found else None


def _is_unedited(path: Path) -> bool:
    text, _, last = files.read_whole(path).decode(errors="replace").rpartition("\n\n")
    return last == _MARK.format(digest=_digest(f"{text}\n\n"))


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Makes a table in Markdown."""
    cells = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_escape_cell(str(each)) for each in row)} |" for row in cells)


def _escape_cell(text: str) -> str:
    """Escapes what Markdown would read as HTML, as a link, as code or as the end of the cell."""
    return re.sub(r"([\\`\[\]|])", r"\\\1", html.escape(" ".join(text.splitlines()), quote=False))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _yaml(value: str | list[str]) -> str:
    return f" {value}" if isinstance(value, str) else "".join(f"\n- {each}" for each in value)


def _some(labels: Sequence[str]) -> str:
    if list(labels) == hugging_face.default_labels(len(labels)):  # names that say nothing
        return ""
    return listed(labels, _MOST_LABELS)
