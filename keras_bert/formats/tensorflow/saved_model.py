"""Reads the variables of SavedModels of TF Hub and of this package, without running the graph.

Those of transformers hold a `config.json`, with which `hugging_face.py` reads them.

A SavedModel of TF Hub has no configuration: sizes come from the shapes of the weights, which have an axis for heads,
and the activation from the operations in the encoder's functions. The family is BERT, and other numbers are Google's.
This package's own exports have no axis for heads, and their configuration is in `assets.extra/config.json`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert import files
from keras_bert.choices import PROBLEM_TYPES
from keras_bert.config import BertConfig
from keras_bert.counted import listed
from keras_bert.formats import hugging_face
from keras_bert.formats.checkpoint import Checkpoint, JoinedFile, WeightFile, all_file_names
from keras_bert.formats.families.row import Layers, Storage
from keras_bert.formats.row_translator import FamilyTable, Names, table_of
from keras_bert.formats.tensorflow import messages, old_transformers
from keras_bert.formats.tensorflow.bundle import TensorFlowFile, by_version, open_by_variable, open_variables
from keras_bert.formats.tensorflow.garden import open_graph
from keras_bert.formats.tensorflow.graph_heads import GraphHead, find_head
from keras_bert.head_table import HEADS
from keras_bert.presets import PresetFiles
from keras_bert.shapes import Shape, head_layers
from keras_bert.task_table import OF_HEAD

MODEL = "saved_model.pb"
CONFIG = "assets.extra/config.json"  # assets.extra is TensorFlow's folder for files that are not part of the graph
TEXTS = "assets.extra/keras_bert"  # of `export_serving`: the task's settings, and its tokenizer
WARMUP = "assets.extra/tf_serving_warmup_requests"  # requests that TF Serving runs first, a TFRecord of PredictionLogs
# Library of TensorFlow Text, beside its Python -> those of its operations that TF Serving's binary has (TF Serving's
# model_servers/BUILD; tensorflow_text's ops_lib; FastBertNormalize since 2.11).
TEXT_LIBRARIES = {
    "metrics/_text_similarity_metric_ops.so": {"RougeL"},
    "ops/_boise_offset_converter.so": {"TFText>BoiseTagsToOffsets", "TFText>OffsetsToBoiseTags"},
    "ops/_byte_splitter.so": {"TFText>ByteSplitByOffsets", "TFText>ByteSplitWithOffsets"},
    "ops/_constrained_sequence_op.so": {"ConstrainedSequence"},
    "ops/_fast_bert_normalizer.so": {"FastBertNormalize"},
    "ops/_fast_sentencepiece_tokenizer.so": {
        "TFText>FastSentencepieceDetokenize", "TFText>FastSentencepieceTokenize",
    },
    "ops/_fast_wordpiece_tokenizer.so": {"FastWordpieceTokenizeWithOffsets", "TFText>FastWordpieceDetokenize"},
    "ops/_mst_ops.so": {"MaxSpanningTree"},
    "ops/_ngrams_op.so": {"TFText>NgramsStringJoin"},
    "ops/_normalize_ops.so": {"CaseFoldUTF8", "FindSourceOffsets", "NormalizeUTF8", "NormalizeUTF8WithOffsetsMap"},
    "ops/_regex_split_ops.so": {"RegexSplitWithOffsets"},
    "ops/_sentence_breaking_ops.so": {"SentenceFragments"},
    "ops/_sentencepiece_tokenizer.so": {
        "SentencepieceDetokenizeOp", "SentencepieceIdToStringOp", "SentencepieceOp", "SentencepieceStringToIdOp",
        "SentencepieceTokenizeOp", "SentencepieceTokenizeWithOffsetsOp", "SentencepieceVocabSizeOp",
    },
    "ops/_split_merge_from_logits_tokenizer.so": {"TokenizerFromLogits"},
    "ops/_split_merge_tokenizer.so": {"SplitMergeTokenizeWithOffsets"},
    "ops/_state_based_sentence_breaker_op.so": {"SentenceFragmentsV2"},
    "ops/_trimmer_ops.so": {"TFText>RoundRobinGenerateMasks", "TFText>RoundRobinTrim"},
    "ops/_unicode_script_tokenizer.so": {"UnicodeScriptTokenizeWithOffsets"},
    "ops/_utf8_binarize_op.so": {"TFText>Utf8Binarize"},
    "ops/_whitespace_tokenizer.so": {"WhitespaceTokenizeWithOffsets"},
    "ops/_whitespace_tokenizer_v2.so": {"TFText>WhitespaceTokenizeWithOffsetsV2"},
    "ops/_wordpiece_tokenizer.so": {"WordpieceTokenizeWithOffsets"},
}  # fmt: skip
TEXT_OPS = set[str]().union(*TEXT_LIBRARIES.values())
PYTHON_OPS = {"PyFunc", "PyFuncStateless", "EagerPyFunc"}  # work only in the process that defined them
# Operation -> activation. The tanh approximation of gelu, as in TF Hub's models, has a Pow; a pooler has Tanh alone.
_ACTIVATIONS = {"Erf": "gelu", "Erfc": "gelu", "Pow": "gelu_tanh", "Relu": "relu", "Sigmoid": "silu"}
# Encoders of TF Hub also store whether the vocabulary is in lower case.
_EXTRAS = r"(.*/)?(do_lower_case|Variable|save_counter)'*"


def own_table(config: BertConfig) -> FamilyTable:
    """Makes the table of this package's own exports, whose weights have this package's names."""

    def with_own_names(layers: Layers, scope: str = "") -> Layers:
        return {path: scope + path for path in layers}

    family = table_of(config)
    return family._replace(
        endings={kind: f"/{kind}" for kind in family.endings},
        storage=Storage(),
        embeddings=with_own_names(family.embeddings),
        block=with_own_names(family.block, "block_{i}/"),
        pooler=with_own_names(family.pooler),
        heads={"masked_lm": with_own_names(family.heads["masked_lm"], "masked_lm_head/")},
    )


def recognizes(preset: PresetFiles) -> bool:
    return (preset.directory / MODEL).is_file()


def is_own(names: Collection[str]) -> bool:
    """Checks whether names of variables are those of an export of this package."""
    return any(name.endswith(("embeddings/norm/gamma", "embeddings/word/embeddings")) for name in names)


def find(preset: PresetFiles) -> Path | None:
    """Finds a preset's SavedModel: that of its handle, or the newest beside its weights; None if there is none."""
    handle = preset.directory / (preset.saved_model or "")
    found = [path for path in (handle, *preset.directory.glob("saved_model/*")) if (path / MODEL).is_file()]
    return handle if handle in found else max(found, key=by_version, default=None)


def open_checkpoint(preset: PresetFiles) -> Checkpoint:
    """Opens the variables of a SavedModel; see `formats.open_checkpoint`."""
    directory = preset.directory
    if root_parts(preset.once(_graphs)) >= PREPROCESSOR:
        raise ValueError(
            f"{directory} is a preprocessor, without a model; give the directory of an encoder, which has its "
            "vocabulary in assets/vocab.txt, or takes that of the preprocessor beside it; text.load_tokenizer reads a "
            "preprocessor's tokenizer"
        )
    file = open_variables(directory)
    if is_own(file.names) and not any(name.startswith("block_0/") for name in file.names):
        raise ValueError(
            f"{directory} was exported for serving, without its configuration, or in bfloat16 or int8, without float "
            "weights, so it cannot be loaded as a model; load the preset that it was exported from"
        )
    if old_transformers.has_lists(file.names):
        raise ValueError(
            f"{directory} is of transformers, but has no configuration; copy the model's config.json there"
        )
    if "embeddings/word/embeddings" in file.names:
        if not (directory / CONFIG).is_file():
            raise ValueError(f"{directory} has no {CONFIG}, so its number of heads is unknown; copy config.json there")
        config = preset.parsed(CONFIG, hugging_face.config_of)
        return Checkpoint("saved_model", config, file, own_table(config), extras=_EXTRAS)
    checkpoint = open_graph("saved_model", file, None, extras=_EXTRAS)
    activation = preset.activation or _find_activation(preset, checkpoint.names("encoder"))
    checkpoint.config = replace(checkpoint.config, activation=activation)
    return checkpoint


# -- The classifier on the encoder of a Keras 2 model.

# Activation -> Hugging Face's name of the problem. One unit is the logit x of the second of two labels, as 0 and x.
_PROBLEMS = {activation: name for name, each in PROBLEM_TYPES.items() for activation in each.activations}
_TASKS = {name: OF_HEAD[name].model for name, head in HEADS.items() if head.has_labels}


def add_classifier(preset: PresetFiles, checkpoint: Checkpoint) -> None:
    """Adds the head that the graph has on the encoder, transformers' or Keras 2's; or a remark on what is there."""
    file, heads = checkpoint.file, checkpoint.heads & {*_TASKS}
    if old_transformers.scopes(file.names) or not (heads or checkpoint.unexpected):
        return
    found = find_head(preset.once(_graphs), checkpoint.names("encoder").get("pooler/kernel", ["none"])[0])
    problem = found if isinstance(found, str) else _inexpressible(found, checkpoint)
    if problem or isinstance(found, str):
        checkpoint.remarks += [f"no head was read: {problem}"] if checkpoint.unexpected else []
        return
    weights, labels = {"logits/kernel": [found.kernel], "logits/bias": [found.bias]}, file.shape(found.bias)[0]
    kind = _PROBLEMS[found.activation] if labels > 1 else _PROBLEMS["Softmax"]
    if labels == 1:
        both = {name: (_SecondLogit(file), name) for name in (found.kernel, found.bias)}
        file, labels = JoinedFile(file.path, {name: (file, name) for name in file.names} | both), 2
    rows = {"truncation": "longest_first"} | ({"max_sequence_length": found.row_length} if found.row_length else {})
    entries = {
        "architectures": [f"{table_of(checkpoint.config).classes}{HEADS[found.head].transformers}"],
        **hugging_face.label_entries(hugging_face.default_labels(labels)),
        **({"problem_type": kind} if found.head == "sequence" else {}),
        hugging_face.SETTINGS: {"task": _TASKS[found.head], "preprocessor": rows},
    }
    checkpoint.add_head(found.head, weights, file, entries)


def _inexpressible(found: GraphHead, checkpoint: Checkpoint) -> str | None:
    """Says why a Dense layer cannot be a head here; None if it can."""
    (layer, *_), config, file = found.kernel.rpartition("/"), checkpoint.config, checkpoint.file
    units = file.shape(found.bias) if {found.kernel, found.bias} <= file.names else ()
    if not units or file.shape(found.kernel) != (config.hidden_size, *units):
        return f"the weights of the Dense layer {layer} do not fit an encoder {config.hidden_size} wide"
    if found.activation not in _PROBLEMS or (found.head == "tokens" and found.activation == "Sigmoid"):
        return f"the Dense layer {layer} has the activation {found.activation}"
    if list(head_layers(config, found.head)) != ["logits"] or (found.head == "tokens" and units == (1,)):
        return f"a {config.family} has no head of one Dense layer ({layer}, units: {units[0]}) for {found.head}"
    return None


class _SecondLogit:
    """The weights of one logit x as those of two, 0 and x, whose softmax is the sigmoid of x."""

    size = None

    def __init__(self, file: WeightFile) -> None:
        self.path, self.names, self._file = file.path, file.names, file

    def shape(self, name: str) -> Shape:
        return (*self._file.shape(name)[:-1], 2)

    def read(self, name: str) -> np.ndarray:
        value = self._file.read(name)
        return np.concatenate([np.zeros_like(value), value], axis=-1)

    def close(self) -> None:
        self._file.close()


# -- The vocabulary among the assets.

_ASSETS = "assets"
_VOCABULARY = "vocab.txt"
_SPLITTING = {"WordpieceTokenizeWithOffsets", "FastWordpieceTokenizeWithOffsets"}
_LOWERING = {"CaseFoldUTF8", "StringLower"}
_LOWERS = "do_lower_case"  # the variable
TOKENIZER_CONFIG = "tokenizer_config.json"
PREPROCESSOR = {"tokenize", "bert_pack_inputs"}  # parts of the root object of TF Hub's preprocessors


def tokenizer_assets(preset: PresetFiles) -> tuple[Path, dict[str, Any] | None] | None:
    """Finds the folder of a WordPiece vocabulary, and its entries of `tokenizer_config.json`; None if there is none."""
    # The graph of a preprocessor says whether it lower-cases texts, an encoder of TF Hub says so in a variable, and
    # what says nothing needs a `tokenizer_config.json`: then the entries are None. An encoder without a vocabulary
    # takes that of the preprocessor beside it. Raises ValueError if it is unknown whether texts are lower-cased.
    directory = preset.directory
    if not recognizes(preset):
        return None
    path, index = directory / _ASSETS / _VOCABULARY, directory / "variables" / "variables.index"
    if not _is_vocabulary(path):
        return _beside(directory, index) if index.is_file() else None
    if found := _of_preprocessor(path, preset.once(_graphs)):
        return found
    if index.is_file() and (lowers := TensorFlowFile(index).read_bool(_LOWERS)) is not None:
        return path.parent, {_LOWERS: lowers}
    if not preset.has(TOKENIZER_CONFIG):
        raise ValueError(
            f"{path} is a vocabulary, but nothing in {directory} says whether texts are lower-cased first: write "
            f'{{"do_lower_case": true}}, or false for a cased model, into {directory / TOKENIZER_CONFIG}'
        )
    return path.parent, None


def _is_vocabulary(path: Path) -> bool:
    return path.is_file() and "[CLS]" in files.split_lines(files.read_text(path))


def _of_preprocessor(path: Path, graphs: Any) -> tuple[Path, dict[str, Any]] | None:
    """Makes the result of `tokenizer_assets` for a graph that splits texts; None for another."""
    found = operations(graphs)
    return (path.parent, {_LOWERS: bool(found & _LOWERING)}) if found & _SPLITTING else None


def _beside(directory: Path, index: Path) -> tuple[Path, dict[str, Any]] | None:
    """Finds the vocabulary of the preprocessor beside an encoder, which has a token for each row of its embeddings."""
    file, found = open_by_variable(TensorFlowFile(index)), {}
    rows = {file.shape(name)[0] for name in file.names if re.search(r"word(_embeddings)?/embeddings$", name)}
    for path in sorted(directory.absolute().parent.glob(f"*/{_ASSETS}/{_VOCABULARY}")):
        graph = path.parent.parent / MODEL
        if graph.is_file() and _is_vocabulary(path) and {len(files.split_lines(files.read_text(path)))} == rows:
            graphs = read_graphs(graph)
            if root_parts(graphs) >= PREPROCESSOR and (each := _of_preprocessor(path, graphs)):
                found.setdefault((files.read_text(path), each[1][_LOWERS]), each)
    if len(found) > 1:
        names = listed([str(each.parent) for each, _ in found.values()])
        raise ValueError(
            f"{directory} has no vocabulary, and beside it are several preprocessors that could be its own: {names}; "
            f"copy {_ASSETS}/{_VOCABULARY} of the right one to it, with a {TOKENIZER_CONFIG}: "
            '{"do_lower_case": true}, or false for a cased model'
        )
    for folder, _ in found.values():
        warnings.warn(f"{directory} has no vocabulary: that of {folder.parent} is taken", stacklevel=2)
    return next(iter(found.values()), None)


def _graphs(preset: PresetFiles) -> Any:
    return read_graphs(preset.directory / MODEL)


def stored_config(directory: Path) -> dict[str, Any] | None:
    """Finds the `config.json` of a class of transformers in what Keras 2 stored with a SavedModel; None without one."""
    path = directory / "keras_metadata.pb"
    if path.is_file():
        nodes = messages.parse("KerasMetadata", files.read_whole(path, files.MOST_GRAPH_BYTES)).nodes
    else:  # before TensorFlow 2.5
        path = directory / MODEL
        nodes = [node.user_object for graph in read_graphs(path).meta_graphs for node in graph.object_graph_def.nodes]
    for text in (node.metadata for node in nodes if '"model_type"' in node.metadata):
        with files.as_value_error(path, f"{path}: the metadata of an object are no JSON", ValueError):
            found = files.parse_json(text)
        for _ in range(2):  # of a model, {"config": ...}; of a layer, {"config": {"config": ...}}
            found = found.get("config") if isinstance(found, dict) else None
            if isinstance(found, dict) and "model_type" in found:
                return found
    return None


def read_graphs(path: Path) -> Any:
    """Reads a `saved_model.pb`, without TensorFlow. Raises ValueError if it is damaged."""
    content = files.read_whole(path, files.MOST_GRAPH_BYTES)
    with files.as_value_error(path, f"{path} is not a SavedModel, or is damaged", ValueError):
        model = messages.parse("SavedModel", content)
    if not model.meta_graphs:
        raise ValueError(f"{path} is damaged: it holds no graph")
    return model


def root_parts(model: Any) -> set[str]:
    """Lists the attributes of the object in a SavedModel."""
    objects = model.meta_graphs[0].object_graph_def.nodes
    return {child.local_name for child in objects[0].children} if objects else set()


def nodes(graph: Any) -> Iterator[Any]:
    """Yields the operations of a graph and of its functions."""
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


def operations(model: Any) -> set[str]:
    """Lists the operations in the graphs of a SavedModel, except calls of their own functions."""
    found = set()
    for graph in (each.graph_def for each in model.meta_graphs):
        found |= {node.op for node in nodes(graph)}
        found -= {function.signature.name for function in graph.library.function}
    return found


def libraries_of(operations: Collection[str]) -> list[str]:
    """Lists the libraries of TensorFlow Text, which programs outside of Python load for these operations."""
    names = (name for name, its in TEXT_LIBRARIES.items() if not its.isdisjoint(operations))
    return [f"tensorflow_text/python/{name}" for name in names]


def _find_activation(preset: PresetFiles, names: Names) -> str:
    """Finds the activation in the functions that compute the encoder, given the names of its variables."""
    encoder = all_file_names(names)
    kernels = all_file_names({key: names[key] for key in names if key.endswith("/intermediate/kernel")})
    operations: set[str] = set()
    for graph in preset.once(_graphs).meta_graphs:
        alone, with_more = [], []  # functions that read the encoder's variables, and those that read others, too
        for name, function in graph.object_graph_def.concrete_functions.items():
            variables = {graph.object_graph_def.nodes[index].variable.name for index in function.bound_inputs}
            if variables & kernels:
                (alone if variables <= encoder else with_more).append(name)
        operations |= _operations(alone or with_more, graph.graph_def.library)
    found = {_ACTIVATIONS[each] for each in operations & _ACTIVATIONS.keys()}
    if not found and "Tanh" in operations:
        found = {"gelu_tanh"}
    if len(found) != 1:
        shown = " and ".join(sorted(found)) or "no activation"
        raise ValueError(
            f"{preset.directory / MODEL}: the functions of the encoder show {shown}, so its activation is unknown; "
            'name it, as in BertEncoder.from_preset(..., activation="gelu_tanh")'
        )
    return found.pop()


def _operations(names: list[str], library: Any) -> set[str]:
    """Lists the operations of functions and of those that they call."""
    nodes, operations = {each.signature.name: each.node_def for each in library.function}, set()
    while names:
        for node in nodes.pop(names.pop(), ()):
            operations.add(node.op)
            names += [value.func.name for value in node.attr.values() if value.func.name]
    return operations
