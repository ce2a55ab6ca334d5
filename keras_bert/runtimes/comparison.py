"""Compares a model in another runtime with Keras's model on a few texts, before the export is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from keras import ops

from keras_bert.engines.runtime import Run
from keras_bert.head_table import HEADS
from keras_bert.inference import SAMPLE_TEXTS
from keras_bert.precisions import PRECISIONS
from keras_bert.tensors import Tensor
from keras_bert.text import BertPreprocessor

if TYPE_CHECKING:
    from keras_bert.runtimes.export import PackedModel

_TEXTS = 6
_FLOAT = 1e-4  # the largest allowed difference in float32; for outputs above 1, it is multiplied by the largest output
_TOKEN_LOGITS = HEADS["spans"].logits  # outputs `[batch, seq_length]`; others for tokens have a third axis


class Difference(NamedTuple):
    """The difference between an output of a runtime and Keras's output, at tokens only, not at padding.

    Attributes:
        output: the name of the output.
        largest: the largest absolute difference.
        cosine: the cosine of the two outputs, each flattened to one vector.
        scale: the largest absolute value of Keras's output.
    """

    output: str
    largest: float
    cosine: float
    scale: float

    def __str__(self) -> str:
        return f"{self.output}: at most {self.largest:.1e} from Keras's, cosine {self.cosine:.6f}"


def sample(model: PackedModel) -> dict[str, np.ndarray]:
    """Packs a few sentences of different lengths for the comparison; without a preprocessor, makes random ids."""
    config, preprocessor = model.config, model.preprocessor
    if preprocessor is None:
        return _random_ids(model, model.length or min(24, config.max_positions))
    rows = BertPreprocessor(preprocessor.tokenizer, model.length, max_sequence_length=config.max_positions)
    texts = SAMPLE_TEXTS[:_TEXTS]
    are_pairs = len(getattr(model.model, "text_names", ("text",))) > 1
    columns = (texts, texts[::-1]) if are_pairs else (texts,)
    # Call tokenize and pack: a call of the preprocessor would be traced.
    packed = rows.pack(tuple(preprocessor.tokenizer.tokenize(column) for column in columns))
    return {name: ops.convert_to_numpy(packed[name]) for name in model.runtime_names}


def _random_ids(model: PackedModel, length: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    mask = np.arange(length) < generator.integers(1, length + 1, (_TEXTS, 1))
    ids = np.where(mask, generator.integers(0, model.config.vocab_size, mask.shape), model.config.pad_token_id)
    values = (ids, mask, np.zeros_like(mask))
    return {name: value.astype(np.int32) for name, value in zip(model.runtime_names, values, strict=False)}


def compare(model: PackedModel, run: Run, packed: Mapping[str, np.ndarray]) -> list[Difference]:
    """Measures the difference of each output in a runtime from Keras's output, for inputs under TF Hub's names."""
    references = model.compute_outputs(dict(packed))
    outputs = run({model.runtime_names[name]: each for name, each in packed.items()})
    return _differences(references, outputs, packed["input_mask"] > 0)


def compare_head(model: PackedModel, run: Run, packed: Mapping[str, np.ndarray]) -> list[Difference]:
    """Measures the head's difference from Keras's, without the first token, for `compare`'s inputs."""
    mask = packed["input_mask"] * (np.arange(packed["input_mask"].shape[1]) > 0)
    outputs = {**model.compute_outputs(dict(packed)), "input_mask": mask}
    inputs = {name: ops.convert_to_numpy(outputs[name]) for name in model.model.head_shapes}
    differences = _differences(model.model.serve_head(inputs), run(inputs), mask > 0)
    return [each._replace(output=f"{each.output} of the head") for each in differences]


def _differences(
    references: Mapping[str, Tensor], outputs: Mapping[str, np.ndarray], is_token: np.ndarray
) -> list[Difference]:
    """Raises ValueError if an output is missing in the runtime, has another shape, or is not finite."""
    differences = []
    for name, tensor in references.items():
        reference = ops.convert_to_numpy(tensor)
        if name not in outputs or outputs[name].shape != reference.shape:
            shape = outputs[name].shape if name in outputs else "missing"
            raise ValueError(f"the runtime's output {name} has shape {shape}, but Keras's has {reference.shape}")
        has_tokens = reference.ndim == 3 or name in _TOKEN_LOGITS
        expected, actual = (
            np.float64(each[is_token] if has_tokens else each).ravel() for each in (reference, outputs[name])
        )
        if not np.isfinite(actual).all():
            raise ValueError(f"the runtime's output {name} is not finite")
        norms = np.linalg.norm(expected) * np.linalg.norm(actual)
        cosine = float(expected @ actual / norms) if norms else float(np.array_equal(expected, actual))
        largest, scale = (float(np.abs(each).max()) for each in (expected - actual, expected))
        differences.append(Difference(name, largest, cosine, scale))
    return differences


def check_differences(differences: list[Difference], precision: str) -> None:
    """Raises ValueError if a difference is too large for the precision: see `_FLOAT` and `Precision.cosine`."""
    cosine = PRECISIONS[precision].cosine
    for each in differences:
        limit = _FLOAT * max(1.0, each.scale)
        is_too_large = each.largest > limit if cosine is None else each.cosine < cosine
        if is_too_large:
            allowed = f"{limit:.1e}" if cosine is None else f"a cosine of {cosine}"
            raise ValueError(f"the {precision} model differs too much from Keras's ({each}; allowed: {allowed})")
