"""Exports to LiteRT (TensorFlow Lite), with Keras's exporter and TensorFlow's converter.

The file's metadata are for the text APIs of MediaPipe and the Task Library. They are a FlatBuffer inside the model
(MediaPipe's metadata_schema.fbs). Vocabulary and labels are a ZIP archive, appended to the model.
"""

from __future__ import annotations

import dataclasses
import functools
import zipfile
from pathlib import Path
from typing import TypeAlias

import flatbuffers
import numpy as np
import tensorflow as tf

from keras_bert import undocumented
from keras_bert.choices import RUNTIMES
from keras_bert.encoder import BertEncoder
from keras_bert.encoder.encoder import NAMES
from keras_bert.formats.hugging_face_tokenizers import VOCABULARY
from keras_bert.runtimes.comparison import Difference
from keras_bert.runtimes.export import PackedModel, Runtime, encoder_of, write
from keras_bert.runtimes.loading import Run
from keras_bert.tasks.task import BertTask
from keras_bert.text import BertPreprocessor, WordPieceTokenizer

_INPUTS = dict(zip(NAMES, ("ids", "mask", "segment_ids"), strict=True))
_FIELD, _IDENTIFIER, _PARSER = "TFLITE_METADATA", b"M001", "1.1.0"
# Values of the schema's enumerations.
_LABELS_FILE, _VOCABULARY_FILE, _FEATURE, _BERT_TOKENIZER = 2, 5, 1, 4

Table: TypeAlias = "dict[int, str | int | Table | list[Table]]"  # the number of a field -> its value


def add_metadata(path: Path, vocabulary: list[str], labels: dict[str, list[str]]) -> None:
    """Adds metadata to a model with three inputs. `labels` maps each output with labels, on its last axis, to them."""
    model = undocumented.litert_files().read_model(str(path))
    graph, signature = model.subgraphs[0], model.signatureDefs[0]
    inputs, outputs = (
        {each.tensorIndex: each.name.decode() for each in maps} for maps in (signature.inputs, signature.outputs)
    )
    metadata = {
        0: "BERT",
        3: [  # subgraph_metadata
            {
                2: [_tensor_metadata(_INPUTS[inputs[index]]) for index in graph.inputs],
                3: [
                    _tensor_metadata(outputs[index], f"{outputs[index]}.txt" * (outputs[index] in labels))
                    for index in graph.outputs
                ],
                5: [{0: _BERT_TOKENIZER, 1: {0: [{0: VOCABULARY, 2: _VOCABULARY_FILE}]}}],  # input_process_units
            }
        ],
        7: _PARSER,
    }
    builder = flatbuffers.Builder()
    builder.Finish(_build_table(builder, metadata), _IDENTIFIER)
    schema = undocumented.litert_schema()
    buffer, entry = schema.BufferT(), schema.MetadataT()
    buffer.data = bytes(builder.Output())
    model.buffers.append(buffer)
    entry.name, entry.buffer = _FIELD, len(model.buffers) - 1
    model.metadata = [*(model.metadata or []), entry]
    path.write_bytes(undocumented.litert_files().convert_object_to_bytearray(model))
    label_files = {f"{output}.txt": names for output, names in labels.items() if output in outputs.values()}
    files = {VOCABULARY: vocabulary, **label_files}
    with zipfile.ZipFile(path, "a") as archive:  # not compressed, because MediaPipe maps the file into memory
        for name, lines in files.items():
            archive.writestr(name, "".join(f"{line}\n" for line in lines))


def _tensor_metadata(name: str, labels: str = "") -> Table:
    """Makes a TensorMetadata: fields 0, name; 3, content; and 6, associated_files."""
    file = {6: [{0: labels, 2: _LABELS_FILE}]} if labels else {}
    return {0: name, 3: {0: _FEATURE, 1: {}}, **file}


def _build_table(builder: flatbuffers.Builder, table: Table) -> int:
    """Writes a table and returns its offset. A value is a str, an int (a byte), a table, or a list of tables."""
    offsets = {}
    for field, value in table.items():
        if isinstance(value, str):
            offsets[field] = builder.CreateString(value)
        elif isinstance(value, dict):
            offsets[field] = _build_table(builder, value)
        elif isinstance(value, list):
            parts = [_build_table(builder, each) for each in value]
            builder.StartVector(4, len(parts), 4)
            for part in reversed(parts):
                builder.PrependUOffsetTRelative(part)
            offsets[field] = builder.EndVector()
    builder.StartObject(max(table, default=-1) + 1)
    for field, value in table.items():
        if isinstance(value, int):
            builder.PrependInt8Slot(field, value, 0)
        else:
            builder.PrependUOffsetTRelativeSlot(field, offsets[field], 0)
    return builder.EndObject()


_PROGRAM = """\
from ai_edge_litert.interpreter import Interpreter
run = Interpreter("model.tflite").get_signature_runner()
outputs = run(**{name: np.array(each, np.int32) for name, each in inputs.items()})"""
_PROGRAM_BY_ROW = """\
from ai_edge_litert.interpreter import Interpreter
run = Interpreter("model.tflite").get_signature_runner()
found = [run(**{name: np.array([each[i]], np.int32) for name, each in inputs.items()}) for i in range(len(rows))]
outputs = {name: np.concatenate([each[name] for each in found]) for name in found[0]}"""


def export_litert(
    model: BertTask | BertEncoder,
    directory: str | Path,
    precision: str = "float32",
    overwrite: bool = False,
    preprocessor: BertPreprocessor | None = None,
    sequence_length: int | None = None,
) -> list[Difference]:
    """Writes `directory/model.tflite` for LiteRT, on phones and in browsers, with its tokenizer and a README.

    The model has only LiteRT's own operations, and needs no Flex delegate. The inputs are int32 under TF Hub's names.
    The outputs are the float32 outputs of the model's `serve_packed`. Logits are left out if there are probabilities,
    and hidden states if there are vectors. The other files are those of `export_onnx`.

    If the model has a WordPiece vocabulary and segments, the file includes metadata, vocabulary and labels for
    MediaPipe's TextClassifier and TextEmbedder. For these, use an uncased model and a fixed `sequence_length`: they
    lower-case texts and read rows of one length.

    Args:
        model, directory, overwrite, preprocessor: see `export_onnx`.
        precision: the precision of the stored weights: "float32"; "float16", half the size; or "int8", a quarter.
        sequence_length: makes the inputs `[1, sequence_length]`, which is faster, and which phones' accelerators need.
            By default, the inputs are `[batch, seq_length]` of any size.

    Returns:
        The difference of each output from Keras's output, on a few sentences.

    Raises:
        See `export_onnx`.

    Example:
        >>> import tempfile
        >>> from keras_bert import BertSentenceEncoder
        >>> model = BertSentenceEncoder.from_preset("all-MiniLM-L6-v2")
        >>> [each.output for each in export_litert(model, tempfile.mkdtemp(), sequence_length=64)]
        ['embedding']
    """
    if sequence_length is not None:
        positions = encoder_of(model).config.max_positions
        if not 3 <= sequence_length <= positions:
            raise ValueError(f"sequence_length is {sequence_length}; expected 3 to {positions}, the model's positions")
    shape = (None, None) if sequence_length is None else (1, sequence_length)
    runtime = dataclasses.replace(
        _RUNTIME,
        convert=functools.partial(_convert, shape=shape, preprocessor=preprocessor),
        program=_PROGRAM if sequence_length is None else _PROGRAM_BY_ROW,
    )
    return write(runtime, model, directory, precision, overwrite, preprocessor, sequence_length)


def _convert(
    packed: PackedModel,
    path: Path,
    precision: str,
    shape: tuple[int | None, int | None] = (None, None),
    preprocessor: BertPreprocessor | None = None,
) -> None:
    target: dict[str, list] = {"supported_ops": [tf.lite.OpsSet.TFLITE_BUILTINS]}
    settings = {} if precision == "float32" else {"optimizations": [tf.lite.Optimize.DEFAULT]}
    if precision == "float16":
        target["supported_types"] = [tf.float16]
    packed.export(
        str(path),
        format="litert",
        input_signature=packed.signature(shape),
        verbose=False,
        target_spec=target,
        **settings,
    )
    preprocessor = getattr(packed.model, "preprocessor", None) or preprocessor
    tokenizer = None if preprocessor is None else preprocessor.tokenizer
    if isinstance(tokenizer, WordPieceTokenizer) and len(packed.runtime_names) == len(NAMES):
        labels = getattr(packed.model, "labels", None)
        add_metadata(path, tokenizer.vocabulary, dict.fromkeys(("probabilities", "values"), labels) if labels else {})


def _load(path: Path) -> Run:
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:  # use the same class from TensorFlow
        Interpreter = tf.lite.Interpreter  # noqa: N806
    run = Interpreter(str(path)).get_signature_runner()
    rows = next(iter(run.get_input_details().values()))["shape_signature"][0]

    def run_all(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        inputs = {name: np.asarray(each, np.int32) for name, each in inputs.items()}
        if rows < 0:
            return run(**inputs)
        count = len(next(iter(inputs.values())))
        outputs = [run(**{name: each[i : i + 1] for name, each in inputs.items()}) for i in range(count)]
        return {name: np.concatenate([each[name] for each in outputs]) for name in outputs[0]}

    return run_all


_RUNTIME = Runtime(
    file=RUNTIMES["litert"],
    names=dict(zip(NAMES, NAMES, strict=True)),
    ids_dtype="int32",
    only_answers=True,
    refused={"bfloat16": "LiteRT does not support bfloat16; export float16, float32 or int8"},
    convert=_convert,
    load=_load,
    program=_PROGRAM,
)
