"""The metadata of a LiteRT model, for the text APIs of MediaPipe and the Task Library.

It is a FlatBuffer inside the model (metadata_schema.fbs of MediaPipe). Vocabulary and labels are a ZIP archive after
the model.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import flatbuffers
from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.lite.tools import flatbuffer_utils

from keras_bert.encoder.encoder import NAMES
from keras_bert.formats.hugging_face_tokenizers import VOCABULARY

_INPUTS = dict(zip(NAMES, ("ids", "mask", "segment_ids"), strict=True))
_FIELD, _IDENTIFIER, _PARSER = "TFLITE_METADATA", b"M001", "1.1.0"
# Numbers of the schema's enumerations.
_LABELS_FILE, _VOCABULARY_FILE, _FEATURE, _BERT_TOKENIZER = 2, 5, 1, 4


def add_metadata(path: Path, vocabulary: list[str], labels: dict[str, list[str]]) -> None:
    """Adds metadata to a model of three inputs.

    Args:
        path: the path of the model, with inputs under TF Hub's names.
        vocabulary: the tokens of its WordPiece tokenizer.
        labels: the names of outputs with labels on the last axis -> the labels.
    """
    model = flatbuffer_utils.read_model(str(path))
    graph, signature = model.subgraphs[0], model.signatureDefs[0]
    inputs, outputs = (
        {each.tensorIndex: each.name.decode() for each in maps} for maps in (signature.inputs, signature.outputs)
    )
    metadata = {
        0: "BERT",
        3: [  # subgraph_metadata
            {
                2: [_tensor(_INPUTS[inputs[index]]) for index in graph.inputs],
                3: [
                    _tensor(outputs[index], f"{outputs[index]}.txt" * (outputs[index] in labels))
                    for index in graph.outputs
                ],
                5: [{0: _BERT_TOKENIZER, 1: {0: [{0: VOCABULARY, 2: _VOCABULARY_FILE}]}}],  # input_process_units
            }
        ],
        7: _PARSER,
    }
    builder = flatbuffers.Builder()
    builder.Finish(_built(builder, metadata), _IDENTIFIER)
    buffer, entry = schema.BufferT(), schema.MetadataT()
    buffer.data = bytes(builder.Output())
    model.buffers.append(buffer)
    entry.name, entry.buffer = _FIELD, len(model.buffers) - 1
    model.metadata = [*(model.metadata or []), entry]
    path.write_bytes(flatbuffer_utils.convert_object_to_bytearray(model))
    named = {f"{output}.txt": names for output, names in labels.items() if output in outputs.values()}
    files = {VOCABULARY: vocabulary, **named}
    with zipfile.ZipFile(path, "a") as archive:  # not compressed: MediaPipe maps it
        for name, lines in files.items():
            archive.writestr(name, "".join(f"{line}\n" for line in lines))


def _tensor(name: str, labels: str = "") -> dict[int, Any]:
    """TensorMetadata: its name, content and associated_files."""
    file = {6: [{0: labels, 2: _LABELS_FILE}]} if labels else {}
    return {0: name, 3: {0: _FEATURE, 1: {}}, **file}


def _built(builder: flatbuffers.Builder, table: dict[int, Any]) -> int:
    """Writes a table: number of a field -> str, int (a byte), a table, or a list of tables."""
    places = {}
    for field, value in table.items():
        if isinstance(value, str):
            places[field] = builder.CreateString(value)
        elif isinstance(value, dict):
            places[field] = _built(builder, value)
        elif isinstance(value, list):
            parts = [_built(builder, each) for each in value]
            builder.StartVector(4, len(parts), 4)
            for part in reversed(parts):
                builder.PrependUOffsetTRelative(part)
            places[field] = builder.EndVector()
    builder.StartObject(max(table, default=-1) + 1)
    for field, value in table.items():
        if isinstance(value, int):
            builder.PrependInt8Slot(field, value, 0)
        else:
            builder.PrependUOffsetTRelativeSlot(field, places[field], 0)
    return builder.EndObject()
