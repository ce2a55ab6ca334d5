"""The metadata of a LiteRT model, for the text APIs of MediaPipe and the Task Library.

They are a FlatBuffer inside the model (MediaPipe's metadata_schema.fbs). Vocabulary and labels are a ZIP archive,
appended to the model.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TypeAlias

import flatbuffers

from keras_bert import undocumented
from keras_bert.encoder.encoder import NAMES
from keras_bert.formats.tokenizers.tokenizer_json import VOCABULARY
from keras_bert.runtimes.export import PackedModel
from keras_bert.text import WordPieceTokenizer

_INPUTS = dict(zip(NAMES, ("ids", "mask", "segment_ids"), strict=True))
_FIELD, _IDENTIFIER, _PARSER = "TFLITE_METADATA", b"M001", "1.1.0"
# Values of the schema's enumerations.
_LABELS_FILE, _VOCABULARY_FILE, _FEATURE, _BERT_TOKENIZER = 2, 5, 1, 4

Table: TypeAlias = "dict[int, str | int | Table | list[Table]]"  # the number of a field -> its value


def add_metadata(path: Path, packed: PackedModel) -> None:
    """Adds metadata to a file if its model has a WordPiece vocabulary and segments, as the APIs' models have."""
    tokenizer = None if packed.preprocessor is None else packed.preprocessor.tokenizer
    if not isinstance(tokenizer, WordPieceTokenizer) or len(packed.runtime_names) < len(NAMES):
        return
    names = getattr(packed.model, "labels", None)
    labels = dict.fromkeys(("probabilities", "values"), names) if names else {}  # of the outputs' last axis
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
    files = {VOCABULARY: tokenizer.vocabulary, **label_files}
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
