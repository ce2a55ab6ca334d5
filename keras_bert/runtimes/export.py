"""The parts of an export that all runtimes share: the model for Keras's exporters, and the directory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert import files
from keras_bert.encoder import BertEncoder
from keras_bert.encoder.encoder import NAMES
from keras_bert.encoder.unpadding import fixed_shapes
from keras_bert.formats import hugging_face
from keras_bert.formats.hugging_face_tokenizers import ALL_IN_ONE
from keras_bert.runtimes.comparison import Difference, check_differences, compare, sample
from keras_bert.runtimes.loading import Run
from keras_bert.tasks.task import BertTask
from keras_bert.tensors import Tensor
from keras_bert.text import BertPreprocessor

# Output -> the output that it is computed from.
_SOURCES = {"embedding": "sequence_output", **dict.fromkeys(("probabilities", "values", "score"), "logits")}


class PackedModel(keras.Model):
    """A model for Keras's exporters, whose inputs are ids with a runtime's names and types.

    Runtimes need shapes that depend only on the shapes of the inputs. So the model computes padding like tokens.

    Args:
        model: a task, or an encoder.
        names: TF Hub's name of an input -> the runtime's. A family without segments has no input for type ids.
        dtype: the type of the inputs, "int32" or "int64".
        only_answers: whether to leave out outputs that others are computed from, such as logits if there are
            probabilities.

    Call arguments:
        inputs: a dict of ints `[batch, seq_length]`.

    Returns:
        The dict of float32 that `model.serve_packed` returns.
    """

    def __init__(
        self, model: BertTask | BertEncoder, names: Mapping[str, str], dtype: str, only_answers: bool = False
    ) -> None:
        super().__init__(name="packed")
        self.model = model
        self.config = encoder_of(model).config
        inputs = NAMES if self.config.type_vocab_size > 1 else NAMES[:2]
        self.runtime_names = {name: names[name] for name in inputs}
        self.ids_dtype = dtype
        self.only_answers = only_answers
        self.built = True

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


def encoder_of(model: BertTask | BertEncoder) -> BertEncoder:
    return model if isinstance(model, BertEncoder) else model.encoder


# -- The directory of an export: the model, its tokenizer, settings and README. It is kept if the outputs are Keras's.

LABELS = "labels.txt"
_ATTRIBUTES = ("ids", "attention_mask", "type_ids")  # attributes of an encoding of `tokenizers`, in the inputs' order

_TEXTS = ("I love pizza", "It rains")
_PAIRS = (("I love pizza", "pizza is food"), ("It rains", "the sun shines"))


def _format_readme(
    model: BertTask | BertEncoder,
    preprocessor: BertPreprocessor | None,
    names: Mapping[str, str],
    program: str,
    length: int | None,
) -> str:
    kind = type(model).__name__
    inputs = ", ".join(names.values())
    shape = f"[1, {length}]" if length else "[batch, seq_length]"
    lines = [
        f"# A {kind}",
        "",
        f"The inputs are {inputs}, `{shape}` each: ids, 1 for tokens, and 1 for second texts.",
        "",
    ]
    if prompts := getattr(model, "prompts", {}):
        lines += [f"Put the right prompt before each text: {', '.join(map(repr, prompts.values()))}.", ""]
    if preprocessor is not None:
        lines += ["```python", _format_program(model, preprocessor, names, program, length), "```", ""]
    return "\n".join(lines)


def _format_program(
    model: BertTask | BertEncoder,
    preprocessor: BertPreprocessor,
    names: Mapping[str, str],
    program: str,
    length: int | None,
) -> str:
    tokenizer = preprocessor.tokenizer
    longest = length or preprocessor.longest
    texts = getattr(model, "ANSWERS_TEXTS", None)
    texts = texts or (_PAIRS if len(getattr(model, "text_names", ("text",))) > 1 else _TEXTS)
    attributes = dict(zip(names.values(), _ATTRIBUTES, strict=False))
    inputs = ", ".join(f'"{name}": [row.{each} for row in rows]' for name, each in attributes.items())
    padding = f"pad_id={tokenizer.pad_token_id}, pad_token={tokenizer.special_tokens['pad_token']!r}"
    return "\n".join(
        [
            "import numpy as np",
            program.partition("\n")[0],
            "from tokenizers import Tokenizer",
            "",
            'tokenizer = Tokenizer.from_file("tokenizer.json")',
            f"tokenizer.enable_truncation({longest})",
            f"tokenizer.enable_padding({padding}{f', length={length}' if length else ''})",
            f"texts = {list(texts)!r}",
            "rows = tokenizer.encode_batch(texts)",
            f"inputs = {{{inputs}}}",
            program.partition("\n")[2].strip("\n"),
            getattr(model, "ANSWERS_PROGRAM", BertTask.ANSWERS_PROGRAM),
        ]
    )


@dataclass(frozen=True)
class Runtime:
    """A runtime to export to: names, types and functions for `write`.

    Attributes:
        file: the model's path in the directory.
        names: TF Hub's name of an input -> the runtime's.
        ids_dtype: the type of the inputs, "int32" or "int64".
        only_answers: whether to leave out outputs that others are computed from.
        refused: a precision that is not supported -> the error message.
        convert: writes a model to a path in a precision.
        load: opens a file, and returns a function from inputs to outputs, both by the runtime's names. It raises
            ImportError if the runtime is not installed.
        program: Python for the README, whose first line imports the runtime. It reads `inputs`, a dict of lists by
            name, and sets `outputs`, a dict of arrays by name.
    """

    file: str
    names: Mapping[str, str]
    ids_dtype: str
    only_answers: bool
    refused: Mapping[str, str]
    convert: Callable[[PackedModel, Path, str], None]
    load: Callable[[Path], Run]
    program: str


def write(
    runtime: Runtime,
    model: BertTask | BertEncoder,
    directory: str | Path,
    precision: str,
    overwrite: bool,
    preprocessor: BertPreprocessor | None,
    length: int | None = None,
) -> list[Difference]:
    """Writes a directory for a runtime; see `export_onnx`, `export_openvino` and `export_litert`.

    Args:
        length: the fixed length of the rows; None: any length.

    Returns:
        The difference of each output from Keras's output; empty if the runtime is not installed.

    Raises:
        ValueError: an argument is not supported, or no `tokenizer.json` can express the tokenizer. Nothing is written.

    Warns:
        UserWarning: a sentence encoder leaves prompts out of the pooling, which an export cannot do.
    """
    preprocessor = getattr(model, "preprocessor", None) or preprocessor
    _check(runtime, model, precision)
    tokenizer_json = None if preprocessor is None else preprocessor.tokenizer.tokenizer_json()
    if any(getattr(model, "prompts", {}).values()) and not getattr(model, "include_prompt", True):
        warnings.warn(
            "this model leaves prompts out of the pooling, but an export cannot tell them from the text; with a "
            "prompt, vectors of the export differ from those of encode",
            stacklevel=3,
        )
    with files.directory_written_whole(Path(directory), runtime.file, overwrite) as unfinished:
        path = unfinished / runtime.file
        path.parent.mkdir(parents=True, exist_ok=True)
        packed_model = PackedModel(model, runtime.names, runtime.ids_dtype, runtime.only_answers)
        runtime.convert(packed_model, path, precision)
        _write_settings(model, preprocessor, tokenizer_json, unfinished)
        readme = _format_readme(model, preprocessor, packed_model.runtime_names, runtime.program, length)
        files.write_texts(unfinished, {"README.md": readme})
        try:
            run = runtime.load(path)
        except ImportError:
            return []
        differences = compare(packed_model, run, sample(packed_model, preprocessor, length))
        check_differences(differences, precision)
    return differences


def _check(runtime: Runtime, model: BertTask | BertEncoder, precision: str) -> None:
    if not isinstance(model, BertTask | BertEncoder):
        raise TypeError(f"got a {type(model).__name__}; expected a task or an encoder of keras_bert")
    if precision in runtime.refused:
        raise ValueError(runtime.refused[precision])
    if precision not in ("float32", "float16", "int8"):
        raise ValueError(f"precision is {precision!r}; expected float32, float16 or int8")
    for label in getattr(model, "labels", None) or ():
        if label.splitlines() not in ([], [label]):
            raise ValueError(
                f"label {label!r} has a line end, such as a line feed or U+2028, but {LABELS} has one label per "
                "line; rename it, for instance in id2label of the model's config.json"
            )
    encoder = encoder_of(model)
    if encoder.inference is not None or encoder.compute_dtype != "float32":
        raise ValueError(
            "the model is in low precision; load it in float32, and pass the precision to the export instead"
        )
    model.serve_packed(dict.fromkeys(NAMES, np.zeros([1, 3], "int32")))  # refuses tasks without outputs


def _write_settings(
    model: BertTask | BertEncoder,
    preprocessor: BertPreprocessor | None,
    tokenizer_json: dict[str, Any] | None,
    directory: Path,
) -> None:
    """Writes the tokenizer's files, the configuration, the labels, and the task's own files."""
    if preprocessor is not None:
        preprocessor.save_preset(directory, overwrite=True)
        files.write_texts(directory, {ALL_IN_ONE: files.to_json(tokenizer_json)})
    if isinstance(model, BertTask):
        model.save_settings(directory)
        if labels := getattr(model, "labels", None):
            files.write_texts(directory, {LABELS: "".join(f"{label}\n" for label in labels)})
    else:
        values = hugging_face.values_of(model.config)
        files.write_texts(directory, {hugging_face.CONFIG: files.to_json(values)})
