"""Compares a model's old files with those that `convert` made of them: the weights, and what both compute."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.counted import counted
from keras_bert.formats import Preset
from keras_bert.formats.tensorflow import saved_model
from keras_bert.head_table import HEADS
from keras_bert.saved_model import reusable
from keras_bert.saved_model.reusable import ReusableSavedModel
from keras_bert.saved_model.transformers_signature import LOGITS, HeadedEncoder, load_parts
from keras_bert.tasks.registry import load_task
from keras_bert.tensors import TRANSFORMERS_INPUTS, TRANSFORMERS_OUTPUTS
from keras_bert.text import BertPreprocessor, load_tokenizer

TEXTS = (
    "A fine film.",
    "",
    "It was a great and terrible night; nobody knew why the river had risen, and nobody asked.",
    "Naïve cafés, 日本語, and 🙂 with xyzzyqwv!",
    "The bank raised its rates (again) by 0.25% in 2024. " * 6,
    "Long texts are cut at the end. " * 80,
)
_WORDS, _MASK, _TYPES = "input_word_ids", "input_mask", "input_type_ids"
# Names of inputs of ids -> this package's, and TF Hub's.
_INPUTS = {
    **dict.fromkeys((_WORDS, "input_ids", "token_ids"), _WORDS),
    **dict.fromkeys((_MASK, "attention_mask", "padding_mask"), _MASK),
    **dict.fromkeys((_TYPES, "token_type_ids", "segment_ids"), _TYPES),
}
# Name -> what an output of an unknown name may be, besides logits. The last two need two labels.
_OF_LOGITS = {
    "probabilities (softmax)": tf.nn.softmax,
    "probabilities (sigmoid)": tf.sigmoid,
    "logit of the second label": lambda logits: logits[..., 1:] - logits[..., :1],
    "probability of the second label": lambda logits: tf.nn.softmax(logits)[..., 1:],
}
# The heads that compare the rows of lists; last what has logits of texts, by which older files do.
_OF_LISTS = sorted(
    [(name,) for name, head in HEADS.items() if head.of_text], key=lambda names: not HEADS[names[0]].is_list
)
_ROWS, _LENGTH = 8, 32  # of ids

Outputs = dict[str, np.ndarray]


@dataclass(frozen=True)
class Difference:
    """The difference between an output, or the weights of a part, of two models."""

    old: str  # the name in the old model
    new: str  # the name here
    largest: float  # the largest difference of two numbers
    scale: float  # the largest absolute value in the old model

    def is_within(self, bound: float) -> bool:
        """Checks whether the largest difference is at most `bound`, times `scale` if that is more than 1."""
        return self.largest <= bound * max(1.0, self.scale)  # False for NaN


@dataclass(frozen=True)
class Comparison:
    """What `compare` found."""

    weights: list[Difference]  # one for each part of the old model; infinite for a head that the new one lacks
    added: list[str]  # heads that only the new model has
    unused: list[str]  # names of the old weights that belong to no part
    unread: str  # why the weights of an old SavedModel cannot be read, and only its outputs are compared; or ""
    outputs: list[Difference]  # one for each output of the old model that has a counterpart
    missing: list[str]  # names of its other outputs
    inputs: int  # the number of texts, or of rows of ids, that both models got; 0: the old files hold weights alone


def compare(old: str | Path, new: str | Path, texts: Sequence[str] | None = None) -> Comparison:
    """Compares a model's old files with new ones: every weight, and, of a SavedModel, every output.

    Use it after `convert`, before the old model is switched off. A SavedModel is run by its signature, or called: those
    of transformers (also the newest in `saved_model` beside `tf_model.h5`), of Keras 2 and 3, of TF Hub and of this
    package. It gets texts if it takes strings, or else ids: rows of several lengths with padding, two segments and
    unknown tokens. Outputs at padding are not compared. A SavedModel is a program: run only those that you trust.

    Args:
        old: the directory of the old model, in a format that `from_preset` reads, or of another SavedModel.
        new: that of the new one.
        texts: texts to compare with, as many as fit in memory; by default a few of many kinds.

    Returns:
        The differences. An output whose name says nothing, such as "classifier", is compared with the logits or the
        probabilities, whichever are nearer.

    Raises:
        FileNotFoundError: one of the directories is not a model, or texts are needed, and the new one has no tokenizer.
        ValueError: the old model cannot be run, takes other inputs, or fails on what the new one takes.

    Example:
        >>> import tempfile
        >>> from keras_bert import BertEncoder
        >>> from keras_bert.saved_model import compare, export_encoder
        >>> directory = tempfile.mkdtemp()
        >>> export_encoder(BertEncoder.from_preset("all-MiniLM-L6-v2"), directory)
        >>> found = compare(directory, "all-MiniLM-L6-v2")
        >>> [each.new for each in found.outputs], all(each.is_within(1e-5) for each in found.outputs)
        (['pooled_output', 'sequence_output'], True)
    """
    with Preset.open(old) as old_preset, Preset.open(new) as new_preset:
        directory, weights, added, unused, unread = saved_model.find(old_preset), [], [], [], ""
        try:
            weights, unused = _compare_weights(old_preset, new_preset), old_preset.checkpoint.unexpected
            added = sorted(new_preset.checkpoint.heads - old_preset.checkpoint.heads)
        except ValueError as error:
            if directory is None:
                raise
            unread = str(error)
        if directory is None:
            return Comparison(weights, added, unused, unread, [], [], 0)
        function, specs = _load(directory)
        inputs, packed = _make_inputs(specs, new_preset, texts)
        try:
            theirs = {name: np.asarray(value) for name, value in sorted(function(inputs).items())}
        except tf.errors.OpError as error:
            reason = error.message.partition("\n\t [[")[0].rpartition("\n")[2]
            raise ValueError(f"{directory} fails on inputs that {new} takes: {reason}") from error
        with_tokens = (new_preset.config.vocab_size,) in [each.shape[-1:] for each in theirs.values()]
        ours = [*_compute(new_preset, packed, with_tokens)][::-1]  # of equal outputs, "default" is named last
    nearest = {name: _nearest(name, value, ours, packed[_MASK]) for name, value in theirs.items()}
    missing = [name for name, each in nearest.items() if each is None]
    return Comparison(weights, added, unused, unread, [*filter(None, nearest.values())], missing, len(packed[_MASK]))


def _compare_weights(old: Preset, new: Preset) -> list[Difference]:
    differences = []
    for part in sorted({"encoder", *old.checkpoint.heads}):
        before = old.checkpoint.weights(part)
        after = new.checkpoint.weights(part) if part in ("encoder", *new.checkpoint.heads) else None
        largest = scale = 0.0
        for name in before:
            value = before[name]
            same = None if after is None or after.shapes.get(name) != value.shape else after[name]
            largest = float(np.maximum(largest, np.inf if same is None else _largest(value - same)))
            scale = max(scale, _largest(value))
        differences.append(Difference(counted(before, "weight"), part, largest, scale))
    return differences


# -- The old model.


def _load(directory: Path) -> tuple[Callable[[Any], Mapping[str, Any]], Any]:
    """Loads a SavedModel; returns a function of its inputs, and the specs of these: a dict, or one spec."""
    graphs = saved_model.read_graphs(directory / saved_model.MODEL)
    if in_python := sorted(saved_model.operations(graphs) & saved_model.PYTHON_OPS):
        raise ValueError(
            f"{directory} calls back into Python ({', '.join(in_python)}), which works only in the process that saved "
            "it, so it cannot be run"
        )
    root = reusable.load(str(directory))
    if signatures := dict(getattr(root, "signatures", {})):
        signature = signatures.get("serving_default") or next(iter(signatures.values()))
        kept = root  # TensorFlow frees its variables otherwise
        return lambda inputs: (kept, signature(**inputs))[1], signature.structured_input_signature[1]
    model = ReusableSavedModel(str(directory))
    return lambda inputs: _by_name(model(inputs)), model.input_specs[0]


def _by_name(outputs: Any) -> dict[str, Any]:
    """Names the tensors in a nest of outputs: `encoder_outputs/0`."""
    return {"/".join(map(str, path)) or "output": each for path, each in keras.tree.flatten_with_path(outputs)}


# -- Inputs for both.


def _make_inputs(specs: Any, new: Preset, texts: Sequence[str] | None) -> tuple[Any, Outputs]:
    """Makes the inputs of the old model, and the same ones for the new model's encoder."""
    named = specs if isinstance(specs, Mapping) else {"": specs}
    if len(named) == 1 and next(iter(named.values())).dtype == tf.string:
        rows = tf.constant(list(texts or TEXTS))
        return (rows if named is not specs else dict.fromkeys(named, rows)), _pack(new, rows)
    roles = {name: _INPUTS.get(name) for name in named}
    shapes = [spec.shape for spec in named.values()]
    if None in roles.values() or {shape.rank for shape in shapes} not in ({2}, {3}):
        raise ValueError(
            f"the old model has the inputs {', '.join(sorted(named))}; it can be compared if it takes one list of "
            f"strings, or matrices of ids, or lists of these for multiple choice, under the names {', '.join(_INPUTS)}"
        )
    length = next((shape[-1] for shape in shapes if shape[-1]), None)
    packed = _random_ids(new, length, {*roles.values()}) if texts is None else _pack(new, tf.constant(texts), length)
    if shapes[0].rank == 3:  # each row, and others
        choices = range(shapes[0][1] or 2)
        packed = {name: np.stack([np.roll(rows, i, 0) for i in choices], axis=1) for name, rows in packed.items()}
    return {name: tf.cast(packed[role], named[name].dtype) for name, role in roles.items() if role}, packed


def _pack(new: Preset, texts: tf.Tensor, length: int | None = None) -> Outputs:
    """Packs texts, in rows as long as the task's own preprocessor makes them, or of a given length."""
    has_own = length is None and any(HEADS[each].has_labels for each in new.checkpoint.heads)
    own = load_task(new).preprocessor if has_own else None
    packed = (own or BertPreprocessor.from_preset(new, sequence_length=length))(texts)
    return {name: np.asarray(value) for name, value in packed.items()}


def _random_ids(new: Preset, length: int | None, roles: set[str | None]) -> Outputs:
    """Makes rows of random tokens of several lengths; without an input for the mask, all of one length."""
    config, rng = new.checkpoint.config, np.random.default_rng(0)
    length = length or min(_LENGTH, config.max_positions)
    lengths = np.linspace(1, length, _ROWS).astype(int) if _MASK in roles else np.full(_ROWS, length)
    places, lengths = np.arange(length), lengths[:, None]
    mask = places < lengths
    ids = rng.integers(0, config.vocab_size, [_ROWS, length])
    ids[ids == config.pad_token_id] = (config.pad_token_id + 1) % config.vocab_size
    with contextlib.suppress(FileNotFoundError):
        ids[:, length // 2] = load_tokenizer(new).unk_token_id
    types = mask & (places >= lengths // 2) & (_TYPES in roles and config.type_vocab_size > 1)
    values = {_WORDS: np.where(mask, ids, config.pad_token_id), _MASK: mask, _TYPES: types}
    return {name: np.asarray(value, np.int32) for name, value in values.items()}


# -- What the new model computes.


def _compute(new: Preset, packed: Outputs, with_tokens: bool) -> Iterator[tuple[str, np.ndarray]]:
    """Computes outputs by name, this package's and transformers'; the large logits of tokens only if asked."""
    encoder, heads = load_parts(new)
    if not with_tokens:
        heads.pop("masked_lm", None)
    is_list = packed[_WORDS].ndim == 3
    inputs = {theirs: packed[ours] for ours, theirs in TRANSFORMERS_INPUTS.items()}
    computed = [
        HeadedEncoder(encoder, {name: heads[name] for name in names})(inputs, training=False)
        for names in (_OF_LISTS if is_list else LOGITS)
        if heads.keys() >= {*names}
    ]
    if not is_list:
        states = _by_name(encoder(packed, training=False))
        computed.append({theirs: states[ours] for ours, theirs in TRANSFORMERS_OUTPUTS.items()} | states)
    for name, value in (item for outputs in computed for item in outputs.items()):
        yield name, np.asarray(value)
        if name == "logits":
            kept = [*_OF_LOGITS.items()][: None if value.shape[-1] == 2 else 2]
            yield from ((each, np.asarray(function(value))) for each, function in kept)


# -- Differences.


def _nearest(name: str, old: np.ndarray, ours: list[tuple[str, np.ndarray]], mask: np.ndarray) -> Difference | None:
    """Compares an output with those of its name; of an unknown name, with the nearest one of its shape."""
    differences = [
        Difference(name, each, _largest(pair[0] - pair[1]), _largest(pair[0]))
        for each, value in [item for item in ours if item[0] == name] or ours
        if (pair := _aligned(old, value, mask)) is not None
    ]
    return min(differences, key=lambda each: each.largest, default=None)


def _aligned(old: np.ndarray, new: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Takes the numbers of tokens, without padding, if rows have tokens; None if the shapes differ."""
    if new.ndim > 1 and new.shape[:2] == mask.shape and old.ndim == new.ndim:
        old = old[:, : mask.shape[1]]  # rows of the old model may have more padding
        old, new = (old[mask == 1], new[mask == 1]) if old.shape[:2] == mask.shape else (old, new)
    same_kind = old.dtype.kind == new.dtype.kind == "f" and old.shape == new.shape
    return (old.astype(np.float64), new.astype(np.float64)) if same_kind else None


def _largest(values: np.ndarray) -> float:
    return float(np.max(np.abs(values), initial=0))
