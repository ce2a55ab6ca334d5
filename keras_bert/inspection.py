"""Tells what a path is: its kind, what it holds, whether it loads here, what is wrong with it, and how to go on.

It imports no TensorFlow, runs nothing from a file, and opens no pickle.
"""

from __future__ import annotations

import importlib.util
import math
import re
import shlex
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_bert import files, presets
from keras_bert.checkpoint_table import CHECKPOINT_FORMATS, SHARDS, WEIGHTS
from keras_bert.config import BertConfig
from keras_bert.counted import counted, listed, visible
from keras_bert.data import conll, squad, table_formats, tables
from keras_bert.formats import Preset, hugging_face, model_files, recognition, saved
from keras_bert.formats.libraries import modules, multi_vector, sentence_transformers
from keras_bert.formats.tensorflow import old_transformers, saved_model
from keras_bert.formats.tensorflow.bundle import open_variables
from keras_bert.formats.tensorflow.messages import BFLOAT16, DTYPES
from keras_bert.formats.tokenizers import byte_pairs, sentencepiece_model, unigram, wordpiece
from keras_bert.formats.tokenizers.tokenizer_files import tokens_of
from keras_bert.formats.weight_files import H5File, SafetensorsFile
from keras_bert.head_table import HEADS
from keras_bert.runtime_table import RUNTIMES
from keras_bert.search import database
from keras_bert.sizes import SIZES
from keras_bert.task_table import OF_HEAD, OF_LIBRARY, PRETRAINED, TASKS

# Class -> the command that uses its model, {} is the path.
_COMMANDS = {
    **{
        task.model: "keras-bert predict {} " + ("--file FILE" if re.search(r'\("[^"]*", ', task.call) else '"a text"')
        for task in TASKS
        if task.is_found
    },
    **{task.model: task.asked for task in TASKS if task.asked},
}
_SERVE = "keras-bert export serving --preset {}%s --output serving"
_SERVED_AS = {model: f" --task {verb}" for verb, model in PRETRAINED.items() if model != OF_HEAD[None].model}
_SERVE_OLD_CLIENTS = "keras-bert export serving --signature transformers --preset {} --output serving"
_CONVERT = "keras-bert convert {} new --check"
_TOKENIZE = 'keras-bert tokenize "a text" --preset {}'
_FINE_TUNE = f"keras-bert finetune {OF_HEAD['sequence'].command} --train FILE --preset {{}} --output new"
_TOKENIZERS: dict[str, tuple[str, Callable[..., dict[str, Any]]]] = {
    "WordPiece": ("WordPieceTokenizer", wordpiece.read_files),
    "BPE": ("BytePairTokenizer", byte_pairs.read_files),
    "Unigram": ("SentencePieceTokenizer", unigram.read_files),
}
# Operations that read outside of their memory before 2.21.1; see SECURITY.md.
_UNSAFE = {
    "FastBertNormalize", "RougeL", "SentencepieceDetokenizeOp", "SentencepieceIdToStringOp",
    "TFText>FastSentencepieceDetokenize", "TFText>FastWordpieceDetokenize",
}  # fmt: skip
# Dimension -> its words, or what it counts.
_SIZES = {
    "num_layers": "layer",
    "hidden_size": "{} wide",
    "num_heads": "head",
    "intermediate_size": "feed-forward layers {} wide",
    "embedding_size": "embeddings {} wide",
    "num_groups": "{} of the layers with weights of their own",
}
# Layers that Keras loads only with safe_mode=False -> the program in them.
_PROGRAMS = {"Lambda": "Python code", "HubLayer": "with a SavedModel, which is a program"}
# Layers that neither Keras has: those of transformers and of TF Hub.
_FOREIGN = r"TF\w+(Model|MainLayer|For\w+)|KerasLayer"
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
        """Yields a name and a text for each line that the command prints, with what files say escaped."""
        lines = [("what", self.what), *self.facts.items(), ("loads as", ", ".join(self.loads_as) or "nothing here")]
        for name, texts in (("signature", self.signatures), ("wrong", self.wrong), ("next", self.commands)):
            lines += ((name, text) for text in texts)
        yield from ((name, visible(text, kept="")) for name, text in lines)

    def add_command(self, command: str, path: Path | None = None) -> None:
        self.commands.append(command.format(shlex.quote(self.handle if path in (None, self.path) else str(path))))


def inspect(path: str | Path) -> Inspection:
    """Tells what a path is: a model in any format, an export, an index, a run, a tokenizer, data, or nothing of these.

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
        if kind.name in _READERS:
            _READERS[kind.name](found)
    except (ValueError, OSError, ImportError) as error:
        found.wrong.append(" ".join(str(error).split()))
    if not found.loads_as and kind.name in ("part", "h5", "safetensors", "other"):
        _add_model_around(found)
    if kind.advice and not found.loads_as and not found.commands:
        found.commands.append(kind.advice)
    return found


def _add_model_around(found: Inspection) -> None:
    """Of a part of a model, adds whose directory it is in, or the directory around that."""
    for directory in found.path.parents[:2]:
        kind = recognition.recognize(directory)
        if kind.name not in ("directory", "empty", "other", "part"):
            found.facts["inside"] = f"{directory}: {kind.title}"
            found.commands = [f"keras-bert inspect {shlex.quote(str(directory))}"]
            return


# -- Models whose weights and configuration are read here.


def _model(found: Inspection) -> None:
    with Preset.open(found.path) as preset:
        if not _is_pickle(preset):
            _add_model(found, preset)
            row = CHECKPOINT_FORMATS[preset.checkpoint.format]
            found.what = row.title if row.kind else found.what
            if row.has_settings:
                _add_task(found, preset)
            return
        _add_configuration(found, preset, preset.config)
        found.what += f", {listed(preset.json(hugging_face.CONFIG).get('architectures') or ())}"
        found.wrong.append("the weights are a pickle, which is not opened here; PyTorch's weights-only loader reads it")
        if _is_installed(found, "torch", "torch"):
            found.loads_as.append("BertEncoder")
        found.add_command(_CONVERT)


def _is_installed(found: Inspection, module: str, package: str) -> bool:
    """Whether a module is installed. If not, adds the command that installs it."""
    if importlib.util.find_spec(module) is None:
        found.commands.append(f"pip install {package}")
        return False
    return True


def _is_pickle(preset: Preset) -> bool:
    """Whether the only weights are PyTorch's pickle."""
    names = [name for name in (*WEIGHTS, *SHARDS) if any(preset.directory.glob(name))]
    return bool(names) and all(name.startswith("pytorch_model") for name in names)


def _add_model(found: Inspection, preset: Preset) -> None:
    """Adds what the weights are, the classes that load them, and how to go on."""
    checkpoint = preset.checkpoint
    found.facts["format"] = f"{checkpoint.format}, {checkpoint.path.name}"
    parameters = f"{sum(map(math.prod, checkpoint.shapes('encoder').values())):,} in the encoder"
    heads = ", ".join(sorted(checkpoint.heads)) or "none"
    _add_configuration(found, preset, checkpoint.config, parameters=parameters, heads=heads)
    found.facts["missing"] = listed(checkpoint.missing) or "nothing"
    found.facts["unexpected"] = listed(checkpoint.unexpected) or "nothing"
    if slots := [name for name in checkpoint.extras if re.search("adam_|optimizer", name, re.IGNORECASE)]:
        found.facts["optimizer"] = f"{counted(slots, 'array')} of its state, not read"
    found.wrong += checkpoint.remarks
    index = checkpoint.path
    if index.suffix == ".index" and not any(index.parent.glob(f"{index.stem}.data-*")):
        found.wrong.append(f"there are no values: copy {index.stem}.data-00000-of-00001 there")
    if checkpoint.missing:
        found.wrong.append("weights are missing: what needs them does not load")
        return
    names = _classes_of(preset)
    found.loads_as += names
    if names[0] == OF_HEAD[None].model:
        found.facts["vectors"] = _vectors(preset.sentence_settings, checkpoint.config.hidden_size)
    has_tokenizer = found.facts["vocabulary"].endswith("Tokenizer")
    if not index.name.startswith(hugging_face.WEIGHTS):
        is_called_so = checkpoint.format == "hugging_face" and all("input_ids" in each for each in found.signatures)
        is_pretrained = has_tokenizer and not any(HEADS[head].has_labels for head in checkpoint.heads)
        commands = (_CONVERT, _SERVE_OLD_CLIENTS if is_called_so else None, _FINE_TUNE if is_pretrained else None)
    else:
        serve = _SERVE % _SERVED_AS.get(names[0], "")
        commands = (_COMMANDS.get(names[0]), serve) if has_tokenizer else ()
    for command in filter(None, commands):
        found.add_command(command, Path(preset.handle))
    if found.facts["vocabulary"] == "none":
        found.wrong.append("there is no tokenizer: copy the files of the model's tokenizer there")


def _add_configuration(found: Inspection, preset: Preset, config: BertConfig, **more: str) -> None:
    found.facts |= {"family": config.family, "size": _size(config), "positions": str(config.max_positions)}
    found.facts |= {**more, "vocabulary": _vocabulary(preset)}


def _add_task(found: Inspection, preset: Preset) -> None:
    """Adds what the settings of Hugging Face's files say: the class that wrote them, labels, files of a task."""
    values = preset.json(hugging_face.CONFIG, {"architectures": ([str], None), hugging_face.SETTINGS: (dict, None)})
    own = (values.get(hugging_face.SETTINGS) or {}).get("task")
    if own:
        found.what = f"a {own} of keras_bert"
    elif found.kind == "sentence_transformers":
        settings = preset.json_if_there(modules.PROMPTS, {"model_type": (str, None)}, preset.home)
        model_type = settings.get("model_type") or "SentenceTransformer"
        title = OF_LIBRARY[model_type].library_title if model_type in OF_LIBRARY else f"a {model_type:.40}"
        found.what = f"{title} of {'PyLate' if model_type == multi_vector.PYLATE else 'sentence-transformers'}"
    elif hugging_face.COLBERT in (values.get("architectures") or ()):
        found.what = "a ColBERT of Stanford's code"
    elif values.get("architectures"):
        found.what += f", {values['architectures'][0]}"
    labels = hugging_face.labels_of(values, preset.directory / hugging_face.CONFIG)
    if labels and any(HEADS[head].has_labels for head in preset.checkpoint.heads):
        found.facts["labels"] = _some(list(map(tables.shorten, labels)))
    if present := [name for name in model_files.OWN if (preset.home / name).is_file()]:
        found.facts["files"] = ", ".join(present)


def _classes_of(preset: Preset) -> list[str]:
    """Lists the classes that load a preset, the one that it was made for first."""
    heads, fitting = preset.checkpoint.heads, saved.task_of(preset)
    if fitting != OF_HEAD[None].model:
        return [fitting, "BertEncoder"]
    pretrained = [task.model for task in TASKS if task.head in heads and not task.is_found]
    is_sentence = (preset.home / modules.MODULES).is_file() or not pretrained
    if is_sentence:
        preset.sentence_settings  # noqa: B018  raises, if it is of another kind
    return [*([fitting] if is_sentence else []), *pretrained, "BertEncoder"]


def _vectors(settings: sentence_transformers.Settings, size: int) -> str:
    """Describes the vectors of texts: `384 wide, by mean pooling, of length 1`."""
    text = f"{settings.dense['units'] if settings.dense else size} wide, by {settings.pooling} pooling"
    text += " and a dense layer" * bool(settings.dense) + ", of length 1" * settings.normalize
    return text + (f", with the prompts {_some(sorted(settings.prompts))}" if settings.prompts else "")


def _size(config: BertConfig) -> str:
    """Lists the dimensions, after the name of the published size that has them, if there is one."""
    own = {field: getattr(config, field) for field in ("family", *_SIZES)}
    names = [name for name in SIZES if own.items() <= vars(BertConfig.named(name)).items()]
    sizes = ((own[field], words) for field, words in _SIZES.items() if own[field] is not None)
    text = ", ".join(words.format(size) if "{}" in words else counted(size, words) for size, words in sizes)
    return f"{names[0]}: {text}" if names else text


def _vocabulary(preset: Preset) -> str:
    """Describes the tokenizer. If it cannot be read, returns the reason: the weights may be of use without it."""
    try:
        tokenizer_files = preset.tokenizer_files
        name, read = _TOKENIZERS[tokenizer_files.kind]
        arguments = read(tokenizer_files)
        if "model_file" in arguments:
            tokens = sentencepiece_model.read_pieces(arguments["model_file"], arguments["family"])[2]
            tokens = list(dict.fromkeys([*tokens, *arguments.get("more_special_tokens", ())]))
        else:
            tokens = tokens_of(arguments["vocabulary"])
        tokenizer_files.check(tokens, {})
    except FileNotFoundError:
        return "none"
    except (ValueError, OSError) as error:
        return f"cannot be read: {' '.join(str(error).split())}"
    return f"{counted(tokens, 'token')}, {name}"


def _tokenizer(found: Inspection) -> None:
    with Preset.open(found.path) as preset:
        found.facts["vocabulary"] = _vocabulary(preset)
    if not found.facts["vocabulary"].startswith("cannot"):
        found.loads_as.append(found.facts["vocabulary"].rpartition(" ")[2])
        found.add_command(_TOKENIZE)


def _configuration(found: Inspection) -> None:
    with Preset.open(found.path) as preset:
        _add_configuration(found, preset, preset.config)


def _export(found: Inspection) -> None:
    with Preset.open(found.path) as preset:
        values = preset.json(hugging_face.CONFIG, {hugging_face.SETTINGS: ({"task": (str, None)}, None)})
        task = (values.get(hugging_face.SETTINGS) or {}).get("task") or "none: the bare encoder"
        _add_configuration(found, preset, preset.config, task=task)
    runtime = RUNTIMES[found.kind]
    is_installed = _is_installed(found, runtime.package.replace("-", "_"), "'keras-bert-models[runtimes]'")
    if is_installed and runtime.can_load:
        found.loads_as.append("keras_bert.runtimes.load")
        if task in _COMMANDS:
            found.add_command(_COMMANDS[task])
            found.add_command("keras-bert serve {}")
    found.commands.append("its README.md has a program that runs it")


# -- SavedModels.


def _saved_model(found: Inspection, path: Path | None = None) -> None:
    path = path or found.path
    model = saved_model.read_graphs(path / saved_model.MODEL)
    graph = model.meta_graphs[0]
    found.facts["written by"] = f"TensorFlow {graph.meta_info_def.tensorflow_version or 'of an unknown version'}"
    signatures = {name: each for name, each in graph.signature_def.items() if not name.startswith("__")}
    for name, each in sorted(signatures.items()):
        found.signatures.append(f"{name}: {_tensors(each.inputs)} -> {_tensors(each.outputs)}")
    objects, parts = graph.object_graph_def.nodes, saved_model.root_parts(model)
    inputs = [item for signature in signatures.values() for item in signature.inputs.items()]
    found.what = _title(parts, inputs, {node.user_object.identifier for node in objects})
    _add_operations(found, model)
    ids = (tensor.tensor_shape.dim for _, tensor in inputs if DTYPES.get(tensor.dtype) in ("int32", "int64"))
    lengths = {str(dims[1].size) for dims in ids if len(dims) == 2 and dims[1].size > 0}
    if lengths:
        found.wrong.append(f"it takes rows of exactly {' or '.join(sorted(lengths))} tokens")
    if not (path / "variables/variables.index").is_file():
        found.wrong.append("it is incomplete: it has no variables/variables.index")
        return
    file = open_variables(path)
    is_own = saved_model.is_own(file.names)
    found.what += ", an export of keras_bert" * is_own
    with Preset.open(path) as preset:
        try:
            _add_model(found, preset)
        except ValueError as error:
            if any(math.prod(file.shape(name)) > 1 for name in file.names):  # more than counters
                found.facts["encoder"] = f"not read: {error}"
        if parts >= saved_model.PREPROCESSOR:
            found.facts["vocabulary"] = _vocabulary(preset)
            found.add_command(_TOKENIZE, path)
    if "__call__" in parts:
        found.loads_as.append("HubLayer")
        found.commands.append(f"in Python: keras_bert.HubLayer({str(path)!r})")
    elif "serve" in signatures:
        found.loads_as.append("keras.layers.TFSMLayer")
    if path.name.isdecimal():
        home = path.parent if path.parent.name else path.absolute().parent  # its name is that of the model
        for command in ["keras-bert export --check {}"] * is_own + ["keras-bert serve {}"]:
            found.add_command(command, home)


def _title(parts: set[str], inputs: list[tuple[str, Any]], identifiers: set[str]) -> str:
    """What a SavedModel is, by the parts of its root object, its inputs, and the kinds of its objects."""
    names, types = {name for name, _ in inputs}, {DTYPES.get(tensor.dtype) for _, tensor in inputs}
    titles = {
        "a preprocessor with TF Hub's interface (SavedModel)": parts >= saved_model.PREPROCESSOR,
        "an encoder with TF Hub's interface (SavedModel)": "__call__" in parts and "input_word_ids" in names,
        "a model that takes texts (SavedModel)": types == {"string"},
        "a SavedModel of transformers 4": "serving" in parts and "input_ids" in names,
        "a SavedModel of Keras 2": any(each.startswith("_tf_keras") for each in identifiers),
        "a SavedModel of Keras 3, from model.export": {"_all_variables", "_misc_assets"} <= parts,
        "a model that takes ids (SavedModel)": "input_ids" in names,
        "a SavedModel of TensorFlow 1": not identifiers,
        "a SavedModel of TensorFlow 2": True,
    }
    return next(title for title, is_it in titles.items() if is_it)


def _tensors(tensors: Any) -> str:
    """Describes the inputs or outputs of a signature: `input_ids int32 [?, ?]`."""
    texts = []
    for name, each in sorted(tensors.items()):
        sizes = ["?" if dim.size < 0 else str(dim.size) for dim in each.tensor_shape.dim]
        shape = ", ".join(["..."] if each.tensor_shape.unknown_rank else sizes)
        texts.append(f"{name} {DTYPES.get(each.dtype, f'type {each.dtype}')} [{shape}]")
    return ", ".join(texts)


def _add_operations(found: Inspection, model: Any) -> None:
    """Adds what kinds of operations the graphs have, and what is known to be wrong with them."""
    kinds = saved_model.operations(model)
    special = sorted(each for each in kinds if each in saved_model.TEXT_OPS or each.startswith("_Mkl"))
    listed = f"; of TensorFlow Text or oneDNN: {_some(special)}" * bool(special)
    found.facts["operations"] = f"{counted(kinds, 'kind')}{listed}"
    if libraries := saved_model.libraries_of(kinds):
        found.facts["libraries"] = f"{', '.join(libraries)}: programs in other languages load them"
    for found_kinds, words in (
        (kinds & _UNSAFE, "TensorFlow Text before 2.21.1 reads outside of its memory in {}"),
        ({each for each in kinds if ">" in each and not each.startswith("TFText>")}, "TensorFlow does not have its {}"),
        (kinds & saved_model.PYTHON_OPS, "it calls back into Python ({}): it runs only where it was made"),
    ):
        if found_kinds:
            found.wrong.append(words.format(_some(found_kinds)))
    nodes = (each for graph in model.meta_graphs for each in saved_model.nodes(graph.graph_def))
    fused = (node for node in nodes if node.op.startswith("_"))
    if any(attribute.type == BFLOAT16 for node in fused for attribute in node.attr.values()):
        found.wrong.append("it computes in bfloat16, which needs AVX-512")


def _versions(found: Inspection) -> None:
    found_files = [*found.path.glob("[0-9]*/saved_model.pb"), *found.path.glob("saved_model/[0-9]*/saved_model.pb")]
    paths = [each.parent for each in found_files]
    _saved_model(found, max(paths, key=lambda path: (len(path.name), path.name)))
    found.facts["versions"] = _some({path.name for path in paths})


# -- Other directories.


def _run(found: Inspection) -> None:
    path = found.path / files.RUN / "state.safetensors"
    with closing(SafetensorsFile(path)) as file:
        notes = files.parse_json(file.metadata.get("notes", "{}"))
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
        found.facts |= {"texts": f"{len(index):,}", "preset": settings.preset}
    if _is_installed(found, "faiss", "'keras-bert-models[search]'"):
        found.loads_as.append("TextIndex")
    found.add_command('keras-bert search {} "a text"')


def _records(found: Inspection) -> None:
    found.loads_as.append("Records")
    found.commands.append(
        f"in Python: keras_bert.pretraining.Records({str(found.path)!r}), for keras_bert.training.pretrain"
    )


def _contents(found: Inspection) -> None:
    inside = sorted(found.path.iterdir())
    holds = "; ".join(f"{each.name}: {recognition.recognize(each).title}" for each in inside[:_MANY])
    found.facts["holds"] = holds + f"; and {len(inside) - _MANY:,} more" * (len(inside) > _MANY)
    if (corpus := found.path / "corpus.jsonl").is_file():
        found.add_command("keras-bert evaluate all-MiniLM-L6-v2 {}")
        found.add_command("keras-bert index {} --text-column text --output new", corpus)
    else:
        found.commands.append("inspect one of them")


# -- Files.


def _keras(found: Inspection) -> None:
    limit = min(10 * found.path.stat().st_size + 2**20, files.MOST_BYTES)  # a small file may hold gigabytes of zeros
    try:
        with zipfile.ZipFile(found.path) as archive:
            texts = [archive.open(name).read(limit).decode() for name in ("config.json", "metadata.json")]
    except Exception as error:  # the type depends on the damage
        raise ValueError(f"{found.path} is damaged: {error}") from None
    config, metadata = map(files.parse_json, texts)
    files.check_json(metadata, dict, f"{found.path}: metadata.json")
    _add_layers(found, config, str(metadata.get("keras_version")))


def _add_layers(found: Inspection, config: Any, version: str) -> None:
    """Adds the layers of a model of Keras, and what stands in the way of loading it."""
    found.facts["written by"] = f"Keras {version}"
    classes = _classes_in(config)
    names = list(dict.fromkeys(name for _, name in classes))
    found.facts["classes"] = _some(names)
    others = {name for package, name in classes if not package.startswith(("keras", "tf_keras", "builtins"))}
    custom = [name for name in names if name in others or re.fullmatch(_FOREIGN, name)]
    programs = [name for name in _PROGRAMS if name in names]
    for name in programs:
        found.wrong.append(
            f"it has a {name}, {_PROGRAMS[name]}: Keras runs it with safe_mode=False; do so if you trust it"
        )
    if custom:
        quoted = [name if name.isidentifier() else repr(name) for name in custom]
        found.wrong.append(f"it needs the code of {_some(quoted)}, which is not part of Keras")
    if not version.startswith("3."):
        found.wrong.append(f"Keras 2 wrote it ({version}): tf_keras, not Keras 3, loads it")
        objects = ", ".join(f"{name!r}: {name}" for name in custom)
        load = f"tf_keras.models.load_model({found.handle!r}{f', custom_objects={{{objects}}}' if custom else ''})"
        if not all(map(str.isidentifier, custom)):  # what a file says is not code to run
            found.wrong.append("its names of classes are no names in Python, so they are of no code that Keras wrote")
            return
        found.commands.append("pip install tf_keras")
        found.commands.append(f'in Python: {load}.save("new", save_format="tf"); then: keras-bert inspect new')
        return
    needed = [name for name in ("keras_bert", "keras_hub") if any(each.startswith(name) for each, _ in classes)]
    if not custom and not programs:
        found.loads_as.append("keras.saving.load_model" + f", after import {', '.join(needed)}" * bool(needed))
    if not custom:
        load = f"keras.saving.load_model({found.handle!r}{', safe_mode=False' * bool(programs)})"
        found.commands.append(f"in Python: import {', '.join(['keras', *needed])}; model = {load}")
    if "keras_hub" in needed:
        found.commands.append('with it, model.save_to_preset("new") writes a preset; then: keras-bert inspect new')


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
                registered = str(value.get("registered_name") or name).rpartition(">")[0]
                classes.append((registered or str(value.get("module") or "keras"), name.rpartition(">")[2]))
            waiting += list(value.values())[::-1]
    return classes


def _h5(found: Inspection) -> None:
    with closing(H5File(found.path)) as file:
        version, model = (file.text(name) for name in ("keras_version", "model_config"))
    if model is None:
        found.facts["arrays"] = _some(file.names) or "none"
    else:
        found.what = "a whole model of Keras (HDF5)"
        _add_layers(found, files.parse_json(model), version or "3")
    if old_transformers.has_lists(file.names):
        found.what += ", written with transformers 4"
        found.commands = [
            "copy config.json and the tokenizer's files of the model that it was made from to a new directory, old",
            f"cp {shlex.quote(str(found.path))} old/tf_model.h5; keras-bert convert old new --check",
        ]


def _safetensors(found: Inspection) -> None:
    with closing(SafetensorsFile(found.path)) as file:
        found.facts |= {"arrays": _some(file.names), "written for": file.metadata.get("format", "no library")}


def _some(names: Collection[str]) -> str:
    return listed(names if isinstance(names, list) else sorted(names), _MANY)


# -- Data.

_FIRST_ROWS, _FIRST_BYTES = 200, 2**24  # of a table, which are looked at
_MOST_CLASSES, _LONGEST_CLASS = 50, 40  # a column that repeats such values may be a label
_TRAINED_ON = {"conll": OF_HEAD["tokens"].command, "squad": OF_HEAD["spans"].command}


def _data(found: Inspection) -> None:
    kind = table_formats.kind_of(found.path)
    if kind.is_table:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")  # of sheets that are not read
            _add_table(found, table_formats.FORMATS[kind.name])
        found.wrong += dict.fromkeys(str(each.message) for each in caught if issubclass(each.category, UserWarning))
    elif kind.name in _TRAINED_ON:
        found.add_command(f"keras-bert finetune {_TRAINED_ON[kind.name]} --train {{}} --output new")
        if found.path.stat().st_size <= _FIRST_BYTES:
            _add_examples(found, kind.name)
    elif kind.is_text:
        if _has_columns(found.path):
            found.what = "text with a tab in each line, which may be a table (TSV)"
            _add_table(found, table_formats.FORMATS["tsv"], "tsv")
        found.add_command("keras-bert index {} --output new")


def _has_columns(path: Path) -> bool:
    """Whether each of the first lines of a text has equally many tabs."""
    lines = (line for _, line in zip(range(table_formats.SAMPLED_ROWS), files.read_lines(path), strict=False))
    tabs = {line.count("\t") for line in lines}
    return len(tabs) == 1 and tabs != {0}


def _add_examples(found: Inspection, kind: str) -> None:
    """Adds how many sentences, and which labels, CoNLL's columns have; or how many questions SQuAD has."""
    if kind == "conll":
        examples = conll.read_conll(found.path)
        found.facts["sentences"] = f"{len(examples.texts['words']):,}"
        found.facts["labels"] = _some({tables.shorten(each) for labels in examples.labels or () for each in labels})
        return
    examples = squad.read_squad(found.path)
    found.facts["questions"] = f"{len(examples.texts['question']):,}"
    if examples.labels is not None:
        found.facts["no answer"] = f"{sum(not each for each in examples.labels):,}"


def _add_table(found: Inspection, kind: table_formats.Format, format: str | None = None) -> None:
    """Adds the columns of a table, its first rows' number and classes, and how to learn from it and to index it."""
    with files.temporary_directory() as folder:
        path, is_whole = found.path, True
        if kind.unit == "line":  # a few bytes of gzip may hold a line of gigabytes
            path = folder / f"{found.path.name.removesuffix('.gz')}"
            with files.open_bytes(found.path) as file:
                start, is_whole = file.read(_FIRST_BYTES), not file.read(1)
            path.write_bytes(start if is_whole else start[: start.rfind(b"\n") + 1])
        try:
            rows = tables.read_rows(path, format, first=_FIRST_ROWS)
            has_header = not (kind.has_cells and tables.look_like_example(rows.names or []))
            if not has_header:
                rows = tables.read_rows(path, format, header=False, first=_FIRST_ROWS)
        except ValueError as error:
            raise ValueError(str(error).replace(str(path), str(found.path))) from None
    is_whole = is_whole and len(rows.rows) < _FIRST_ROWS
    cells = [row for _, row in rows.rows if not isinstance(row, str)]
    if rows.table.delimiter:
        found.facts["delimiter"] = repr(rows.table.delimiter)
    names = (rows.names or []) if has_header else [str(number + 1) for number in range(rows.width)]
    found.facts |= {
        "columns": listed(list(map(tables.shorten, names))) if has_header else f"{rows.width}, without names",
        "rows": f"{'' if is_whole else 'at least '}{len(rows.rows):,}",
    }
    by_name = {
        name: [str(row.get(name) or "") if isinstance(row, dict) else row[number] for row in cells]
        for number, name in enumerate(names)
    }
    lengths = {name: sum(map(len, each)) for name, each in by_name.items()}
    column = "text" if "text" in names else max(names, key=lengths.__getitem__, default="")
    labels = _label_columns(by_name, column)
    if len(labels) == 1:
        classes = _some({tables.shorten(each) for each in by_name[labels[0]]})
        found.facts["labels"] = classes + f" (column {labels[0]})" * (labels != ["label"])
    elif labels:
        found.facts["labels"] = f"in one of the columns {listed(labels)}"
    if not all(map(str.isprintable, (column, *labels))):
        return
    texts = [name for name in names if name == column or (lengths[name] > lengths[column] / 2 and name not in labels)]
    if labels and column:
        options = [("--text-column", texts[0])] if len(texts) == 2 else [("--text-column", column)]
        options += [("--text-pair-column", texts[1])] if len(texts) == 2 else []
        options += [("--label-column", labels[0] if len(labels) == 1 else "COLUMN")] if labels != ["label"] else []
        if len(labels) == 1 and any(re.fullmatch(r"[-+]?\d*\.\d+", each) for each in by_name[labels[0]]):
            options.append(("--problem-type", "regression"))
        options += [("--format", format)] if format else []
        words = "".join(f" {option} {_quoted(each)}" for option, each in options) + " --no-header" * (not has_header)
        found.add_command(f"keras-bert finetune {OF_HEAD['sequence'].command} --train {{}}{words} --output new")
    if column and has_header and not format:
        found.add_command(f"keras-bert index {{}} --text-column {_quoted(column)} --output new")


def _quoted(word: str) -> str:
    """Quotes a word for the shell, in a template of `add_command`."""
    return shlex.quote(word).replace("{", "{{").replace("}", "}}")


def _label_columns(by_name: dict[str, list[str]], text: str) -> list[str]:
    """Lists the columns that may be the label: "label"; or those with the fewest short values that are repeated."""
    if "label" in by_name:
        return ["label"]
    counts = {
        name: len({*cells})
        for name, cells in by_name.items()
        if name != text and all(len(each) <= _LONGEST_CLASS for each in cells) and all(cells)
    }
    repeated = {name: n for name, n in counts.items() if 1 < n <= min(_MOST_CLASSES, len(by_name[name]) / 2)}
    return [name for name, n in repeated.items() if n == min(repeated.values())]


# Kind of `recognition` -> what reads more of it.
_READERS: dict[str, Callable[[Inspection], None]] = {
    **dict.fromkeys((*recognition.CHECKPOINTS, "sentence_transformers"), _model),
    "saved_model": _saved_model,
    "versions": _versions,
    **dict.fromkeys(RUNTIMES, _export),
    "run": _run,
    "index": _index,
    "records": _records,
    "configuration": _configuration,
    "tokenizer": _tokenizer,
    "directory": _contents,
    "data": _data,
    "keras": _keras,
    "h5": _h5,
    "safetensors": _safetensors,
}
