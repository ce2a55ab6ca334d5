"""The parts of an export that all runtimes share: the model for Keras's exporters, and the directory."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert import files
from keras_bert.counted import either
from keras_bert.encoder import BertEncoder
from keras_bert.encoder.encoder import NAMES
from keras_bert.encoder.unpadding import fixed_shapes
from keras_bert.formats import hugging_face
from keras_bert.formats.saved import PARTS, write_settings
from keras_bert.formats.tokenizers.tokenizer_json import ALL_IN_ONE
from keras_bert.runtime_table import LOADABLE, Runtime
from keras_bert.runtimes.comparison import Difference, check_differences, compare, compare_head, sample
from keras_bert.tasks.base.task import BertTask
from keras_bert.tensors import Tensor
from keras_bert.text import BertPreprocessor

# Output -> the output that it is computed from.
_SOURCES = {"embedding": "sequence_output", "logits": "features"}
_SOURCES |= dict.fromkeys(("probabilities", "values", "score", "probability"), "logits")


class _ExportedModel(keras.Model):
    """A model of which Keras's exporters see the layers, but not the preprocessor: they would trace its functions."""

    def __init__(self, model: BertTask | BertEncoder, preprocessor: BertPreprocessor | None, name: str) -> None:
        super().__init__(name=name)
        self._unseen = SimpleNamespace(model=model, preprocessor=preprocessor)
        layers = [model] if isinstance(model, BertEncoder) else model.layers
        self.seen = [each for each in layers if not isinstance(each, BertPreprocessor)]
        self.built = True

    @property
    def model(self) -> Any:
        return self._unseen.model

    @property
    def preprocessor(self) -> BertPreprocessor | None:
        return self._unseen.preprocessor


class PackedModel(_ExportedModel):
    """A model for Keras's exporters, whose inputs are ids with a runtime's names and types."""

    # Runtimes need shapes that depend only on the shapes of the inputs. So the model computes padding like tokens. It
    # returns the dict of float32 that `model.serve_packed` returns. A family without segments has no input for type
    # ids.

    def __init__(
        self,
        model: BertTask | BertEncoder,
        runtime: Runtime,
        preprocessor: BertPreprocessor | None = None,
        length: int | None = None,  # of the rows; None: any length
    ) -> None:
        super().__init__(model, preprocessor, "packed")
        self.length, self.config = length, encoder_of(model).config
        inputs = NAMES if self.config.type_vocab_size > 1 else NAMES[:2]
        self.runtime_names = {name: runtime.names[name] for name in inputs}
        self.ids_dtype = runtime.ids_dtype
        self.only_answers = runtime.only_answers

    def call(self, inputs: Mapping[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        packed = {hub_name: inputs[name] for hub_name, name in self.runtime_names.items()}
        with fixed_shapes():
            return self.compute_outputs(packed)

    def compute_outputs(self, packed: dict[str, Tensor]) -> dict[str, Tensor]:
        """Computes the outputs from inputs under TF Hub's names. Called directly, it is Keras's reference."""
        outputs = self.model.serve_packed(packed)
        sources = {_SOURCES.get(name) for name in outputs} if self.only_answers else ()
        return {name: ops.cast(each, "float32") for name, each in outputs.items() if name not in sources}

    def signature(self, shape: tuple[int | None, int | None] = (None, None)) -> list[dict[str, keras.InputSpec]]:
        """Makes the specs of the inputs for `export`. The default is `[batch, seq_length]` of any size."""
        names = self.runtime_names.values()
        return [{name: keras.InputSpec(shape=shape, dtype=self.ids_dtype, name=name) for name in names}]


class HeadModel(_ExportedModel):
    """A task's head for Keras's exporters, from outputs of the `PackedModel` to answers."""

    def __init__(self, model: BertTask, runtime: Runtime) -> None:
        super().__init__(model, None, "head")
        self.ids_dtype = runtime.ids_dtype

    def call(self, inputs: Mapping[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        return self.model.serve_head(inputs)

    def signature(self) -> list[dict[str, keras.InputSpec]]:
        """Makes the specs of the inputs for `export`: states in float32, and a mask."""
        dtypes = {name: self.ids_dtype if name == "input_mask" else "float32" for name in self.model.head_shapes}
        shapes = self.model.head_shapes.items()
        return [{name: keras.InputSpec(shape=shape, dtype=dtypes[name], name=name) for name, shape in shapes}]


class WithWeightsAsInputs(keras.Model):
    """A model for Keras's exporters that takes its weights as inputs: tf2onnx would copy constants dozens of times."""

    def __init__(self, exported: PackedModel | HeadModel) -> None:
        super().__init__(name=exported.name)
        weights = {f"weight_{i}": each for i, each in enumerate(exported.weights)}
        self.unseen = SimpleNamespace(exported=exported, weights=weights)  # Keras would export them
        self.built = True

    def call(self, inputs: Mapping[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        exported, weights = self.unseen.exported, self.unseen.weights
        with keras.StatelessScope([(variable, inputs[name]) for name, variable in weights.items()]):
            return exported.call({name: each for name, each in inputs.items() if name not in weights})

    def signature(self) -> list[dict[str, keras.InputSpec]]:
        """Makes the specs of the inputs for `export`: those of the model, and its weights."""
        weights = self.unseen.weights.items()
        specs = {name: keras.InputSpec(shape=tuple(each.shape), dtype=each.dtype, name=name) for name, each in weights}
        return [{**self.unseen.exported.signature()[0], **specs}]


def encoder_of(model: BertTask | BertEncoder) -> BertEncoder:
    return model if isinstance(model, BertEncoder) else model.encoder


def _parts_beside(model: BertTask | BertEncoder) -> list[str]:
    """Names the parts of a model that its graph does not compute with."""
    parts = model.PARTS if isinstance(model, BertTask) else ()
    return [part.name for part in parts if part.weights(model) and not part.is_in_graph]


# -- The directory of an export: the model, its tokenizer, settings and README. It is kept if the outputs are Keras's.

LABELS = "labels.txt"
_TEXTS = ["I love pizza", "It rains"]
_SECOND_TEXTS = ["pizza is food", "the sun shines"]

_README = """\
# A {kind}

The inputs are {inputs}, `{shape}` each: ids, 1 for tokens, and 1 for second texts.
"""
_PROMPTS = """
Put the right prompt before each text: {prompts}.
"""
_LEFT_OUT = """
Its vectors leave prompts out of the pooling, but `embedding` pools all tokens: ids do not show which are a prompt. So
with a prompt, vectors of other programs differ; {loader} pools without it.
"""
_PARTS = """
`{file}` holds what is not in the graph, {parts}: `keras_bert` computes it, other programs do not.
"""
_NO_ANSWER = """
A span scores its start logit plus its end logit. There is no answer if this sum at the first token, minus the best
span's, is above {threshold}.
"""
_LOAD = """
With keras_bert, without TensorFlow; `load` also gives the model the methods of its task:

```python
from keras_bert.runtimes import load

outputs = load(".")({texts})
for name, output in outputs.items():
    print(name, output.shape)
```
"""
_PROGRAM = """
`pip install {package} tokenizers numpy` is all that this program needs:

```python
import numpy as np
{import_runtime}
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("tokenizer.json")
tokenizer.enable_truncation({longest})
tokenizer.enable_padding({padding})
texts = tokenizer.encode_batch({texts})
inputs = {{{values}}}
{run}
for name, output in outputs.items():
    print(name, output.shape)
```
"""


def _format_readme(runtime: Runtime, packed: PackedModel) -> str:
    preprocessor, length, names = packed.preprocessor, packed.length, packed.runtime_names.values()
    shape = f"[1, {length}]" if length else "[batch, seq_length]"
    readme = _README.format(kind=type(packed.model).__name__, inputs=", ".join(names), shape=shape)
    if prompts := getattr(packed.model, "prompts", {}):
        readme += _PROMPTS.format(prompts=", ".join(map(repr, prompts.values())))
        if not getattr(packed.model, "include_prompt", True):
            loader = "`keras_bert.runtimes.load`" if runtime.can_load else "`BertSentenceEncoder`"
            readme += _LEFT_OUT.format(loader=loader)
    if parts := _parts_beside(packed.model):
        readme += _PARTS.format(file=PARTS, parts=", ".join(parts))
    if (threshold := getattr(packed.model, "no_answer_threshold", None)) is not None:
        readme += _NO_ANSWER.format(threshold=threshold)
    if preprocessor is None:
        return readme
    are_pairs = len(getattr(packed.model, "text_names", ("text",))) > 1
    tokenizer = preprocessor.tokenizer
    padding = f"pad_id={tokenizer.pad_token_id}, pad_token={tokenizer.special_tokens['pad_token']!r}"
    attributes = zip(names, ("ids", "attention_mask", "type_ids"), strict=False)
    import_runtime, _, run = runtime.program.partition("\n")
    readme += _PROGRAM.format(
        package=runtime.package,
        import_runtime=import_runtime,
        longest=length or preprocessor.longest,
        padding=f"{padding}, length={length}" if length else padding,
        texts=list(zip(_TEXTS, _SECOND_TEXTS, strict=True)) if are_pairs else _TEXTS,
        values=", ".join(f'"{name}": [text.{each} for text in texts]' for name, each in attributes),
        run=run,
    )
    return readme + (_LOAD.format(texts=(_TEXTS, _SECOND_TEXTS) if are_pairs else _TEXTS) if runtime.can_load else "")


def write(
    runtime: Runtime,
    model: BertTask | BertEncoder,
    directory: str | Path,
    precision: str,
    overwrite: bool,
    preprocessor: BertPreprocessor | None = None,
    sequence_length: int | None = None,
) -> list[Difference]:
    """Writes a directory for a runtime; see `export_onnx`. Rows have any length, or the given one."""
    preprocessor = getattr(model, "preprocessor", None) or preprocessor
    _check(runtime, model, precision, sequence_length)
    tokenizer_json = None if preprocessor is None else preprocessor.tokenizer.tokenizer_json()
    with files.directory_written_whole(Path(directory), runtime.file, overwrite) as unfinished:
        path = unfinished / runtime.file
        path.parent.mkdir(parents=True, exist_ok=True)
        packed = PackedModel(model, runtime, preprocessor, sequence_length)
        runtime.convert(packed, path, precision)
        head = unfinished / runtime.head if runtime.head and isinstance(model, BertTask) and model.head_shapes else None
        if head:
            runtime.convert(HeadModel(model, runtime), head, "float32")
        _write_settings(packed, tokenizer_json, unfinished)
        files.write_texts(unfinished, {"README.md": _format_readme(runtime, packed)})
        try:
            run = runtime.open(path)
        except ImportError:
            return []
        inputs = sample(packed)
        differences = compare(packed, run, inputs)
        check_differences(differences, precision)
        if head is not None:
            of_head = compare_head(packed, runtime.open(head), inputs)
            check_differences(of_head, "float32")
            differences += of_head
    return differences


def _check(runtime: Runtime, model: BertTask | BertEncoder, precision: str, sequence_length: int | None) -> None:
    if not isinstance(model, BertTask | BertEncoder):
        raise TypeError(f"got a {type(model).__name__}; expected a task or an encoder of keras_bert")
    encoder = encoder_of(model)
    positions = encoder.config.max_positions
    if sequence_length is not None and not 3 <= sequence_length <= positions:
        raise ValueError(f"sequence_length is {sequence_length}; expected 3 to {positions}, the model's positions")
    if precision not in runtime.precisions:
        known, why = either(runtime.precisions), runtime.refused.get(precision)
        raise ValueError(f"{why}; export {known}" if why else f"precision is {precision!r}; expected {known}")
    if not runtime.can_load and getattr(model, "crf", None):
        others = " or ".join(f"export_{each.name}" for each in LOADABLE)
        raise ValueError(
            f"{runtime.title} runs a graph alone, and a CRF labels the words of a sentence outside of it; "
            f"use {others}, or train without crf"
        )
    for label in getattr(model, "labels", None) or ():
        if label.splitlines() not in ([], [label]):
            raise ValueError(
                f"label {label!r} has a line end, such as a line feed or U+2028, but {LABELS} has one label per "
                "line; rename it, for instance in id2label of the model's config.json"
            )
    if encoder.inference is not None or encoder.compute_dtype != "float32":
        raise ValueError(
            "the model is in low precision; load it in float32, and pass the precision to the export instead"
        )
    model.serve_packed(dict.fromkeys(NAMES, np.zeros([1, 3], "int32")))  # refuses tasks without outputs


def _write_settings(packed: PackedModel, tokenizer_json: dict[str, Any] | None, directory: Path) -> None:
    """Writes the tokenizer's files, the configuration, the labels, and the task's own files."""
    model, preprocessor = packed.model, packed.preprocessor
    if preprocessor is not None:
        preprocessor.save_preset(directory, overwrite=True)
        files.write_texts(directory, {ALL_IN_ONE: files.to_json(tokenizer_json)})
    if isinstance(model, BertTask):
        saved = model.saved()
        if preprocessor is not None and preprocessor.tokenizer.special_tokens_in_text:  # not in presets of masked LMs
            saved = dataclasses.replace(saved, preprocessor={**saved.preprocessor, "special_tokens_in_text": True})
        write_settings(directory, saved, _parts_beside(model))
        if labels := getattr(model, "labels", None):
            files.write_texts(directory, {LABELS: "".join(f"{label}\n" for label in labels)})
    else:
        values = hugging_face.values_of(model.config)
        files.write_texts(directory, {hugging_face.CONFIG: files.to_json(values)})
