"""Tells what a path is: its kind, what it holds, whether it loads here, what is wrong with it, and how to go on.

It imports no TensorFlow, runs nothing from a file, and opens no pickle.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import re
import shlex
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from keras_bert import files, presets
from keras_bert.config import SIZES, BertConfig
from keras_bert.formats import (
    Checkpoint,
    Preset,
    hugging_face,
    hugging_face_byte_pairs,
    hugging_face_unigram,
    hugging_face_wordpiece,
    model_files,
    recognition,
    saved,
    saved_model,
    sentence_transformers,
    sentencepiece_model,
    weight_files,
)
from keras_bert.formats.tensorflow_index import TensorFlowIndex
from keras_bert.formats.tensorflow_messages import BFLOAT16, DTYPES
from keras_bert.search import database
from keras_bert.task_table import HEADS, TASKS

# Class -> the command that uses its model, {} is the path.
_COMMANDS = {
    **{task.model: 'keras-bert predict {} "a text"' for task in TASKS if task.is_found},
    "BertSentenceEncoder": 'keras-bert encode "a text" --preset {}',
    "BertMaskedLM": 'keras-bert fill {} "a text with a [MASK]"',
}
_SERVE = "keras-bert export serving --preset {} --output serving"
_SERVE_OLD_CLIENTS = "keras-bert export serving --signature transformers --preset {} --output serving"
_CONVERT = "keras-bert convert {} new --check"
_TOKENIZERS: dict[str, tuple[str, Callable[..., dict[str, Any]]]] = {
    "WordPiece": ("WordPieceTokenizer", hugging_face_wordpiece.read_files),
    "BPE": ("BytePairTokenizer", hugging_face_byte_pairs.read_files),
    "Unigram": ("SentencePieceTokenizer", hugging_face_unigram.read_files),
}
# Format -> what a model in it is, if nothing says more.
_FORMATS = {
    "tf1": "Google's checkpoint of TensorFlow 1",
    "garden": "a checkpoint of TF Model Garden",
    "keras_hub": "a KerasHub preset",
}
# Kind of an export -> the module that runs it.
_RUNTIMES = {"onnx": "onnxruntime", "openvino": "openvino", "litert": "ai_edge_litert"}
# Operations that read outside of their memory before 2.21.1; see SECURITY.md.
_UNSAFE = {
    "FastBertNormalize", "RougeL", "SentencepieceDetokenizeOp", "SentencepieceIdToStringOp",
    "TFText>FastSentencepieceDetokenize", "TFText>FastWordpieceDetokenize",
}  # fmt: skip

_MAX_EXPANSION = 10  # bytes of a part of a zip file per byte of the file
_MANY = 8  # names that a line lists


@dataclass
class Inspection:
    """What `inspect` finds. `lines` has all of it as text.

    Attributes:
        handle: what was inspected, as it was given.
        path: the same as a path.
        kind: a word for the kind, such as "hugging_face" or "saved_model".
        what: the kind in words.
        facts: more, by name, such as "family", "heads" and "missing", as the command prints them.
        loads_as: the classes that load it, such as ["BertClassifier"]; empty if nothing here does.
        signatures: of a SavedModel, with types and shapes; ? is a size that may vary.
        wrong: what is missing or known to be wrong.
        commands: how to go on.
    """

    handle: str
    path: Path
    kind: str
    what: str
    facts: dict[str, str] = field(default_factory=dict)
    loads_as: list[str] = field(default_factory=list)
    signatures: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yields a name and a text for each line that the command prints."""
        yield "what", self.what
        yield from self.facts.items()
        yield "loads as", ", ".join(self.loads_as) or "nothing here"
        for name, texts in (("signature", self.signatures), ("wrong", self.wrong), ("next", self.commands)):
            yield from ((name, text) for text in texts)

    def add_command(self, command: str, path: Path | None = None) -> None:
        self.commands.append(command.format(shlex.quote(self.handle if path in (None, self.path) else str(path))))


def inspect(path: str | Path) -> Inspection:
    """Tells what a path is: a model in any format, an export, an index, a run, a tokenizer, or nothing of these.

    Use it before you load, convert or serve what somebody left on a disk. It takes about a second, imports no
    TensorFlow, runs nothing from a file and opens no pickle. What it cannot read it names in `wrong`.

    Args:
        path: a directory or a file; or the name of a preset, or `hf://org/name`.

    Raises:
        FileNotFoundError: there is no such path, nor a preset of this name.

    Example:
        >>> found = inspect("all-MiniLM-L6-v2")
        >>> found.what, found.loads_as, found.facts["family"], found.wrong
        ('a sentence encoder of sentence-transformers', ['BertSentenceEncoder', 'BertEncoder'], 'bert', [])
    """
    found_path = Path(path) if Path(path).exists() else presets.resolve(path)
    kind = recognition.recognize(found_path)
    found = Inspection(str(path), found_path, kind.name, kind.title)
    try:
        if kind.name in _DETAILS:
            _DETAILS[kind.name](found)
    except (ValueError, OSError, ImportError) as error:
        found.wrong.append(" ".join(str(error).split()))
    if kind.advice and not found.loads_as:
        found.commands.append(kind.advice.format(parent=shlex.quote(str(found_path.parent))))
    return found


# -- Models whose weights and configuration are read here.


def _model(found: Inspection) -> None:
    with Preset.open(found.path) as preset:
        if _is_pickle(preset):
            _add_configuration(found, preset.config)
            found.what += f", {', '.join(preset.json(hugging_face.CONFIG).get('architectures') or ())}"
            found.facts["vocabulary"] = _vocabulary(preset)
            found.wrong.append(
                "the weights are a pickle, which is not opened here; PyTorch's weights-only loader reads it"
            )
            if _is_installed(found, "torch", "torch"):
                found.loads_as.append("BertEncoder")
            found.add_command(_CONVERT)
            return
        checkpoint = preset.checkpoint
        found.facts["format"] = f"{checkpoint.format}, {checkpoint.path.name}"
        _add_weights(found, preset, checkpoint)
        found.what = _FORMATS.get(checkpoint.format, found.what)
        if checkpoint.format == "hugging_face":
            _add_task(found, preset)
        if checkpoint.missing:
            found.wrong.append("weights are missing: what needs them does not load")
            return
        names = _classes_of(preset)
        found.loads_as += names
        if names[0] == "BertSentenceEncoder":
            found.facts["vectors"] = _vectors(preset.sentence_settings, checkpoint.config.hidden_size)
        if not checkpoint.path.name.startswith(hugging_face.WEIGHTS):
            found.add_command(_CONVERT)
            if checkpoint.format == "hugging_face":
                found.add_command(_SERVE_OLD_CLIENTS)
        elif found.facts["vocabulary"].endswith("Tokenizer"):
            for command in filter(None, (_COMMANDS.get(names[0]), _SERVE)):
                found.add_command(command)
        if found.facts["vocabulary"] == "none":
            found.wrong.append("there is no tokenizer: copy the files of the model's tokenizer there")


def _is_installed(found: Inspection, module: str, package: str) -> bool:
    """Whether a module is installed. If not, adds the command that installs it."""
    if importlib.util.find_spec(module) is None:
        found.commands.append(f"pip install {package}")
        return False
    return True


def _is_pickle(preset: Preset) -> bool:
    """Whether the only weights are PyTorch's pickle."""
    names = [name for name in (*model_files.WEIGHTS, *model_files.SHARDS) if any(preset.directory.glob(name))]
    return bool(names) and all(name.startswith("pytorch_model") for name in names)


def _add_weights(found: Inspection, preset: Preset, checkpoint: Checkpoint) -> None:
    """Adds what the configuration and the names of the weights say."""
    _add_configuration(found, checkpoint.config)
    parameters = sum(math.prod(shape) for shape in checkpoint.shapes("encoder").values())
    found.facts |= {
        "parameters": f"{parameters:,} in the encoder",
        "heads": ", ".join(sorted(checkpoint.heads)) or "none",
        "vocabulary": _vocabulary(preset),
        "missing": ", ".join(checkpoint.missing) or "nothing",
        "unexpected": ", ".join(checkpoint.unexpected) or "nothing",
    }
    found.wrong += checkpoint.remarks
    if slots := [name for name in checkpoint.extras if re.search("adam_|optimizer", name, re.IGNORECASE)]:
        found.facts["optimizer"] = f"{len(slots):,} arrays of its state, which are not read"
    if checkpoint.path.suffix == ".index" and not any(checkpoint.path.parent.glob(f"{checkpoint.path.stem}.data-*")):
        found.wrong.append(f"there are no values: copy {checkpoint.path.stem}.data-00000-of-00001 there")


def _add_configuration(found: Inspection, config: BertConfig) -> None:
    found.facts |= {"family": config.family, "size": _size(config), "positions": str(config.max_positions)}


def _add_task(found: Inspection, preset: Preset) -> None:
    """Adds what the settings of Hugging Face's files say: the class that wrote them, labels, files of a task."""
    values = preset.json(hugging_face.CONFIG, {"architectures": ([str], None), hugging_face.SETTINGS: (dict, None)})
    own = (values.get(hugging_face.SETTINGS) or {}).get("task")
    if own:
        found.what = f"a {own} of keras_bert"
    elif found.kind == "sentence_transformers":
        settings = preset.json_if_there(sentence_transformers.PROMPTS, {"model_type": (str, None)}, preset.home)
        model_type = settings.get("model_type") or "SentenceTransformer"
        kinds = {"SentenceTransformer": "a sentence encoder", "CrossEncoder": "a cross-encoder"}
        found.what = f"{kinds.get(model_type, 'a sparse encoder')} of sentence-transformers"
    elif values.get("architectures"):
        found.what += f", {values['architectures'][0]}"
    labels = hugging_face.labels_of(values, preset.directory / hugging_face.CONFIG)
    if labels and any(HEADS[head].has_labels for head in preset.checkpoint.heads):
        found.facts["labels"] = _some(labels)
    names = (*model_files.OWN, "optimizer.pt", "trainer_state.json")
    if present := [name for name in names if (preset.home / name).is_file()]:
        found.facts["files"] = ", ".join(present)


def _classes_of(preset: Preset) -> list[str]:
    """Lists the classes that load a preset, the one that it was made for first."""
    heads, fitting = preset.checkpoint.heads, saved.task_of(preset)
    if fitting != "BertSentenceEncoder":
        return [fitting, "BertEncoder"]
    pretrained = [task.model for task in TASKS if task.head in heads and not task.is_found]
    is_sentence = (preset.home / sentence_transformers.MODULES).is_file() or not pretrained
    if is_sentence:
        preset.sentence_settings  # noqa: B018  raises, if it is of another kind
    return [*([fitting] if is_sentence else []), *pretrained, "BertEncoder"]


def _vectors(settings: sentence_transformers.SentenceSettings, size: int) -> str:
    """Describes the vectors of texts: `384 wide, by mean pooling, of length 1`."""
    text = f"{settings.dense['units'] if settings.dense else size} wide, by {settings.pooling} pooling"
    text += " and a dense layer" * bool(settings.dense) + ", of length 1" * settings.normalize
    return text + (f", with the prompts {_some(sorted(settings.prompts))}" if settings.prompts else "")


def _size(config: BertConfig) -> str:
    """Lists the dimensions, after the name of the published size that has them, if there is one."""
    fields = ("family", "num_layers", "hidden_size", "num_heads", "intermediate_size", "embedding_size", "num_groups")
    dimensions = [getattr(config, field) for field in fields]
    names = [name for name in SIZES if dimensions == [getattr(BertConfig.named(name), field) for field in fields]]
    text = (
        f"{config.num_layers} layers, {config.hidden_size} wide, {config.num_heads} heads, "
        f"feed-forward layers {config.intermediate_size} wide"
    )
    if config.embedding_size is not None:
        text += f", embeddings {config.embedding_size} wide"
    if config.num_groups is not None:
        text += f", {config.num_groups} with weights of {'its' if config.num_groups == 1 else 'their'} own"
    return f"{names[0]}: {text}" if names else text


def _vocabulary(preset: Preset) -> str:
    """Describes the tokenizer. If it cannot be read, returns the reason: the weights may be of use without it."""
    tokenizer_files = preset.tokenizer_files
    try:
        name, read = _TOKENIZERS[tokenizer_files.kind]
        tokens = _tokens(read(tokenizer_files))
        tokenizer_files.check(tokens, {})
    except FileNotFoundError:
        return "none"
    except (ValueError, OSError) as error:
        return f"cannot be read: {' '.join(str(error).split())}"
    return f"{len(tokens):,} tokens, {name}"


def _tokens(arguments: dict[str, Any]) -> list[str]:
    """Lists the tokens of a tokenizer, from its arguments."""
    if "model_file" in arguments:
        tokens = sentencepiece_model.read_pieces(arguments["model_file"], arguments["family"])[2]
        return [*tokens, *(each for each in arguments.get("more_special_tokens", ()) if each not in tokens)]
    vocabulary = arguments["vocabulary"]
    if isinstance(vocabulary, Path):
        vocabulary = (
            files.read_json(vocabulary, {str: int})
            if vocabulary.suffix == ".json"
            else files.split_lines(files.read_text(vocabulary))
        )
    return sorted(vocabulary, key=vocabulary.__getitem__) if isinstance(vocabulary, dict) else vocabulary


def _tokenizer(found: Inspection) -> None:
    with Preset.open(found.path) as preset:
        found.facts["vocabulary"] = _vocabulary(preset)
    if not found.facts["vocabulary"].startswith("cannot"):
        found.loads_as.append(found.facts["vocabulary"].rpartition(" ")[2])
        found.add_command('keras-bert tokenize "a text" --preset {}')


def _configuration(found: Inspection) -> None:
    with Preset.open(found.path) as preset:
        _add_configuration(found, preset.config)
        found.facts["vocabulary"] = _vocabulary(preset)
    found.wrong.append("there are no weights: a model of this configuration has to be trained")


# -- SavedModels.


def _saved_model(found: Inspection, path: Path | None = None) -> None:
    path = path or found.path
    model = saved_model.read_graphs(path / saved_model.MODEL)
    graph = model.meta_graphs[0]
    root = graph.object_graph_def.nodes[0] if graph.object_graph_def.nodes else None
    parts = {child.local_name for child in root.children} if root else set()
    found.facts["written by"] = f"TensorFlow {graph.meta_info_def.tensorflow_version or 'of an unknown version'}"
    signatures = {name: each for name, each in graph.signature_def.items() if not name.startswith("__")}
    for name, each in sorted(signatures.items()):
        found.signatures.append(f"{name}: {_tensors(each.inputs)} -> {_tensors(each.outputs)}")
    inputs = {name for each in signatures.values() for name in each.inputs}
    types = {DTYPES.get(tensor.dtype, "") for each in signatures.values() for tensor in each.inputs.values()}
    identifiers = {node.user_object.identifier for node in graph.object_graph_def.nodes}
    is_ours = (path / saved_model.CONFIG).is_file()
    title = next(title for title, is_it in _SAVED_MODELS if is_it(parts, inputs | types, identifiers))
    found.what = title + (", an export of keras_bert" if is_ours else "")
    _add_operations(found, model)
    fixed = sorted({each for signature in signatures.values() for each in _fixed_lengths(signature.inputs)})
    if fixed:
        found.wrong.append(f"it takes rows of exactly {' or '.join(map(str, fixed))} tokens")
    if (path / "variables" / "variables.index").is_file():
        _add_variables(found, path)
    else:
        found.wrong.append("it is incomplete: it has no variables/variables.index")
        return
    if "BertEncoder" in found.loads_as:
        found.add_command(_CONVERT, path)
        if "input_ids" in inputs:
            found.add_command(_SERVE_OLD_CLIENTS, path)
    if "__call__" in parts:
        found.loads_as.append("HubLayer")
        found.commands.append(f"in Python: keras_bert.HubLayer({str(path)!r})")
    elif "serve" in signatures:
        found.loads_as.append("keras.layers.TFSMLayer")
    if path.name.isdecimal() and path == found.path:
        found.add_command("keras-bert serve {}", path.resolve().parent)


def _add_variables(found: Inspection, path: Path) -> None:
    """Adds what the variables say, if they are those of an encoder."""
    with Preset.open(path) as preset:
        try:
            checkpoint = preset.checkpoint
        except ValueError as error:
            index = TensorFlowIndex(path / "variables" / "variables.index")
            values = [math.prod(shape) for name, shape in index.shapes.items() if name.endswith("VARIABLE_VALUE")]
            found.facts["weights"] = f"{len(values)}, with {sum(values):,} numbers"
            if max(values, default=0) > 1:  # more than counters
                found.facts["encoder"] = f"none that is known here: {error}"
            return
        found.facts["format"] = f"{checkpoint.format}, {checkpoint.path.name}"
        _add_weights(found, preset, checkpoint)
        if not checkpoint.missing:
            found.loads_as += _classes_of(preset)


# What a SavedModel is, by the parts of its root object, the names and types of its inputs, and its objects.
_SAVED_MODELS: tuple[tuple[str, Callable[[set[str], set[str], set[str]], bool]], ...] = (
    (
        "a preprocessor with TF Hub's interface (SavedModel)",
        lambda parts, inputs, identifiers: {"tokenize", "bert_pack_inputs"} <= parts,
    ),
    (
        "an encoder with TF Hub's interface (SavedModel)",
        lambda parts, inputs, identifiers: "__call__" in parts and {"input_word_ids", "input_mask"} <= inputs,
    ),
    (
        "a model that takes texts (SavedModel), such as an export for TF Serving",
        lambda parts, inputs, identifiers: "string" in inputs and not inputs & {"int32", "int64", "float32"},
    ),
    (
        "a SavedModel of transformers 4",
        lambda parts, inputs, identifiers: "serving" in parts and "input_ids" in inputs,
    ),
    (
        "a SavedModel of Keras 2",
        lambda parts, inputs, identifiers: any(each.startswith("_tf_keras") for each in identifiers),
    ),
    (
        "a SavedModel of Keras 3, from model.export",
        lambda parts, inputs, identifiers: {"_all_variables", "_misc_assets"} <= parts,
    ),
    ("a model that takes ids (SavedModel)", lambda parts, inputs, identifiers: "input_ids" in inputs),
    ("a SavedModel of TensorFlow 1", lambda parts, inputs, identifiers: not identifiers),
    ("a SavedModel of TensorFlow 2", lambda parts, inputs, identifiers: True),
)


def _tensors(tensors: Any) -> str:
    """Describes the inputs or outputs of a signature: `input_ids int32 [?, ?]`."""
    return ", ".join(
        f"{name} {DTYPES.get(each.dtype, f'type {each.dtype}')} {_shape(each.tensor_shape)}"
        for name, each in sorted(tensors.items())
    )


def _shape(shape: Any) -> str:
    if shape.unknown_rank:
        return "of any shape"
    return f"[{', '.join('?' if each.size < 0 else str(each.size) for each in shape.dim)}]"


def _fixed_lengths(inputs: Any) -> list[int]:
    """Lists the fixed lengths of rows of ids."""
    ids = (each.tensor_shape.dim for each in inputs.values() if DTYPES.get(each.dtype) in ("int32", "int64"))
    return [dims[1].size for dims in ids if len(dims) == 2 and dims[1].size > 0]


def _add_operations(found: Inspection, model: Any) -> None:
    """Adds what kinds of operations the graphs have, and what is known to be wrong with them."""
    operations = saved_model.operations(model)
    text = sorted(operations & saved_model.TEXT_OPS)
    fused = sorted(each for each in operations if each.startswith("_Mkl"))
    listed = [f"{len(operations)} kinds"]
    listed += [f"of TensorFlow Text: {_some(text)}"] if text else []
    listed += [f"of oneDNN: {_some(fused)}"] if fused else []
    found.facts["operations"] = "; ".join(listed)
    if unsafe := sorted(operations & _UNSAFE):
        found.wrong.append(
            f"TensorFlow Text before 2.21.1 reads outside of its memory in {', '.join(unsafe)}{_text_version()}"
        )
    if others := sorted({each.partition(">")[0] for each in operations if ">" in each} - {"TFText"}):
        found.wrong.append(f"it needs operations of {', '.join(others)}, which TensorFlow does not have")
    if in_python := sorted(operations & saved_model.PYTHON_OPS):
        found.wrong.append(f"it calls back into Python ({', '.join(in_python)}): it runs only where it was made")
    nodes = (each for graph in model.meta_graphs for each in _nodes(graph.graph_def) if each.op.startswith("_"))
    if any(attribute.type == BFLOAT16 for node in nodes for attribute in node.attr.values()):
        found.wrong.append(f"it computes in bfloat16, which needs AVX-512{_processor()}")


def _nodes(graph: Any) -> Iterator[Any]:
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


def _text_version() -> str:
    try:
        version = importlib.metadata.version("tensorflow-text")
    except importlib.metadata.PackageNotFoundError:
        return ""
    return f"; here is {version}"


def _processor() -> str:
    try:
        flags = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:  # not Linux
        return ""
    return "; this processor has it" if "avx512f" in flags else "; this processor has none"


def _serving(found: Inspection) -> None:
    versions = sorted((int(each.parent.name), each.parent) for each in found.path.glob("[0-9]*/saved_model.pb"))
    _saved_model(found, versions[-1][1])
    found.facts["versions"] = ", ".join(str(number) for number, _ in versions)
    found.add_command("keras-bert export --check {}")
    found.add_command("keras-bert serve {}")


def _saved_model_of_transformers(found: Inspection) -> None:
    newest = max(found.path.glob("saved_model/[0-9]*/saved_model.pb")).parent
    _saved_model(found, newest)
    found.add_command("keras-bert serve {}", newest.parent)


# -- Other directories.


def _run(found: Inspection) -> None:
    path = found.path / files.RUN / "state.safetensors"
    try:
        with safe_open(path, framework="numpy") as file:
            notes = files.parse_json((file.metadata() or {}).get("notes", "{}"))
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    files.check_json(notes, {"epoch": int, "step": int, "measures": ({str: float}, None)}, path)
    if notes.get("measures") is not None and (found.path / hugging_face.WEIGHTS).is_file():
        _model(found)
        measures = ", ".join(f"{name} {each:.4g}" for name, each in notes["measures"].items())
        found.facts["training"] = f"finished: {measures}"
        return
    found.what = "a training run that is not finished"
    found.facts["training"] = f"after epoch {notes['epoch']}, step {notes['step']} of the next one"
    found.commands.append(f"run the command with --output {shlex.quote(found.handle)} again: it resumes")


def _index(found: Inspection) -> None:
    with database.reading(found.path) as (index, settings):
        found.facts |= {
            "texts": f"{len(index):,}",
            "vectors": f"{settings.stored}, compared by {settings.similarity}",
            "preset": settings.preset,
        }
    if _is_installed(found, "faiss", "'keras-bert-models[search]'"):
        found.loads_as.append("TextIndex")
    found.add_command('keras-bert search {} "a text"')


def _records(found: Inspection) -> None:
    found.facts["files"] = f"{len(list(found.path.glob('*.tfrecord'))):,}"
    found.loads_as.append("Records")
    found.commands.append(f"keras-bert pretrain --records {shlex.quote(found.handle)} --output new")


def _export(found: Inspection) -> None:
    with Preset.open(found.path) as preset:
        _add_configuration(found, preset.config)
        values = preset.json(hugging_face.CONFIG, {hugging_face.SETTINGS: ({"task": (str, None)}, None)})
        found.facts["task"] = (values.get(hugging_face.SETTINGS) or {}).get("task") or "none: the bare encoder"
        found.facts["vocabulary"] = _vocabulary(preset)
    if _is_installed(found, _RUNTIMES[found.kind], "'keras-bert-models[runtimes]'") and found.kind != "litert":
        found.loads_as.append("keras_bert.runtimes.load")
    found.commands.append("its README.md has a program that runs it")


def _directories(found: Inspection) -> None:
    inside = sorted(each for each in found.path.iterdir() if each.is_dir())
    found.facts["directories"] = f"{len(inside):,}"
    found.facts["holds"] = "; ".join(f"{each.name}: {recognition.recognize(each).title}" for each in inside[:_MANY])


def _first_file(pattern: str) -> Callable[[Inspection], None]:
    def read(found: Inspection) -> None:
        found.facts["files"] = _some(sorted(each.name for each in found.path.glob(pattern)))

    return read


# -- Files.


def _keras(found: Inspection) -> None:
    with zipfile.ZipFile(found.path) as archive:
        config, metadata = (_read_json_in(archive, name, found.path) for name in ("config.json", "metadata.json"))
    found.facts["written by"] = f"Keras {metadata.get('keras_version')}"
    _add_layers(found, config)


def _read_json_in(archive: zipfile.ZipFile, name: str, path: Path) -> dict[str, Any]:
    if archive.getinfo(name).file_size > _MAX_EXPANSION * path.stat().st_size + 2**20:
        raise ValueError(f"{path} is refused: its {name} is many times larger than the file")
    try:
        values = files.parse_json(archive.read(name).decode())
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    files.check_json(values, dict, f"{path}: {name}")
    return values


def _add_layers(found: Inspection, config: dict[str, Any]) -> None:
    """Adds the model of a configuration of Keras, its layers, and what stands in the way of loading it."""
    version = found.facts["written by"].rpartition(" ")[2]
    is_keras_3 = version.startswith("3.")
    classes = _classes_in(config)
    names = list(dict.fromkeys(name for _, name in classes))
    found.facts["classes"] = _some(names)
    custom = sorted({name for package, name in classes if not package.startswith(("keras", "tf_keras", "builtins"))})
    if "Lambda" in names:
        found.wrong.append(
            "it has a Lambda layer, which is Python code: Keras runs it only with safe_mode=False; do that only for a "
            "file that you trust"
        )
    if custom:
        found.wrong.append(f"it needs the code of {', '.join(custom[:_MANY])}, which is not part of Keras")
    if not is_keras_3:
        found.wrong.append(f"Keras 2 wrote it ({version}): tf_keras, not Keras 3, loads it")
        found.commands.append("pip install tf_keras")
        load = f"tf_keras.models.load_model({found.handle!r})"
        found.commands.append(f'in Python: {load}.save("new", save_format="tf"); then: keras-bert inspect new')
    elif not custom and "Lambda" not in names:
        found.loads_as.append("keras.saving.load_model")
        if any(package.startswith("keras_bert") for package, _ in classes):
            found.loads_as[0] += ", after import keras_bert"


def _classes_in(config: Any) -> list[tuple[str, str]]:
    """Lists the classes in a configuration, each with its package: "keras", "keras_bert" or another."""
    classes, waiting = [], [config]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value[::-1]
        if isinstance(value, dict):
            name = value.get("class_name")
            if isinstance(name, str) and "config" in value:
                registered = str(value.get("registered_name") or "").rpartition(">")[0]
                classes.append((registered or str(value.get("module") or "keras"), name))
            waiting += list(value.values())[::-1]
    return classes


def _h5(found: Inspection) -> None:
    import h5py

    weight_files.check_h5(found.path)
    try:
        with h5py.File(found.path, "r") as file:
            present = [name for name in ("keras_version", "model_config") if name in file.attrs]
            # A list may refer to one text a million times.
            present = [name for name in present if file.attrs.get_id(name).shape == ()]
            attributes = {name: _text(file.attrs[name]) for name in present}
            names, is_old = sorted(file.keys()), "layer_names" in file.attrs or "model_weights" in file
    except Exception as error:  # the type of h5py's error depends on the damage
        raise ValueError(f"{found.path} is not a whole HDF5 file; fetch it again ({error})") from None
    found.facts["written by"] = f"Keras {attributes.get('keras_version', 3)}"
    found.facts["groups"] = _some(names) or "none"
    if "model_config" in attributes:
        found.what = "a whole model of Keras (HDF5)"
        _add_layers(found, files.parse_json(attributes["model_config"]))
        return
    found.what = "weights of Keras without a model (HDF5)"
    beside = recognition.recognize(found.path.resolve().parent)
    if beside.name in ("hugging_face", "keras_hub"):
        found.what += f", part of {beside.title}"
        found.commands.append(f"keras-bert inspect {shlex.quote(str(found.path.parent))}")
    elif is_old:
        found.wrong.append("only the code that made its model can load it: model.load_weights(...), with tf_keras")
    else:
        found.wrong.append("only the code that made its model can load it: model.load_weights(...)")


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _safetensors(found: Inspection) -> None:
    try:
        with safe_open(found.path, framework="numpy") as file:
            found.facts["tensors"] = _some(sorted(file.keys()))
            metadata = file.metadata() or {}
    except SafetensorError as error:
        raise ValueError(f"{found.path} is not a whole safetensors file; fetch it again ({error})") from None
    if "format" in metadata:
        found.facts["written for"] = metadata["format"]
    if (found.path.parent / hugging_face.CONFIG).is_file():
        found.commands.append(f"keras-bert inspect {shlex.quote(str(found.path.parent))}")


def _array(found: Inspection) -> None:
    try:
        array = np.load(found.path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # NumPy reads the header as Python's literals, with errors of many types
        raise ValueError(f"{found.path} is not a whole .npy file: {error}") from None
    found.facts["shape"] = f"{array.dtype} {list(array.shape)}"
    if array.ndim == 2 and array.dtype.kind == "f":
        found.what = "vectors, an array of NumPy"
        found.loads_as.append("numpy.load")


def _some(names: list[str]) -> str:
    return ", ".join(names[:_MANY]) + (f" and {len(names) - _MANY:,} more" if len(names) > _MANY else "")


# Kind of `recognition` -> what reads more of it.
_DETAILS: dict[str, Callable[[Inspection], None]] = {
    **dict.fromkeys(("hugging_face", "sentence_transformers", "keras_hub", "checkpoint"), _model),
    "saved_model": _saved_model,
    "serving": _serving,
    "transformers_saved_model": _saved_model_of_transformers,
    **dict.fromkeys(("onnx", "openvino", "litert"), _export),
    "run": _run,
    "index": _index,
    "records": _records,
    "configuration": _configuration,
    "tokenizer": _tokenizer,
    "directories": _directories,
    "gguf": _first_file("*.gguf"),
    "other_onnx": _first_file("**/*.onnx"),
    "keras_files": _first_file("*.[hk]*"),
    "tables": _first_file("*.*"),
    "tfrecords": _first_file("*.tfrecord*"),
    "unknown": _first_file("*"),
    "keras": _keras,
    "h5": _h5,
    "safetensors": _safetensors,
    "array": _array,
}
