"""Convert a model's files to another format."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_bert import files, formats
from keras_bert.config import BertConfig
from keras_bert.formats import Preset, hugging_face, model_card, model_files
from keras_bert.formats.libraries import cross_encoder
from keras_bert.formats.preset import check_format
from keras_bert.formats.saved import CRF, LIBRARIES, note, read_library_files
from keras_bert.formats.weight_files import read_checked
from keras_bert.progress import progress_bar
from keras_bert.task_table import OF_LIBRARY

if TYPE_CHECKING:
    from keras_bert.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Converted:
    """What `convert` read, and what it left out."""

    config: BertConfig
    source_format: str  # "hugging_face", "tf1", ...
    heads: list[str]
    has_vocabulary: bool
    unexpected: list[str]  # names of weights that the family does not have, which are left out
    left_out: list[str]  # files, and entries of `config.json`, for which the new format has no place
    remarks: list[str]  # what else a user should know of the files that were read


def convert(
    source: str | Path, destination: str | Path, format: str = "hugging_face", progress: bool | None = None
) -> Converted:
    """Writes a model in another format: the encoder, all heads, the tokenizer, and what else the format holds.

    Use it to give a model to another program, or to have Hugging Face's files of a model in another format. Weights are
    copied one by one, without building a model. Hugging Face's format also holds labels and the task's settings,
    sentence-transformers' files, the transitions of a CRF, and int8 ranges.

    Args:
        source: the name of a preset, `hf://org/name`, or a directory in a format that `formats.open_checkpoint` reads.
        destination: a new directory. After an error, there is none.
        format: one of `formats.FORMATS`.
        progress: whether to show a progress bar; by default on a terminal, elsewhere a line a minute.

    Raises:
        FileExistsError: `destination` exists.
        FileNotFoundError: there is no such preset, or it lacks a file.
        ValueError: a file is damaged, or the format is unknown, or cannot express the configuration or a head.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     done = convert("all-MiniLM-L6-v2", f"{directory}/google", "tf1")
        >>> done.source_format, done.heads, done.left_out[0]
        ('hugging_face', [], 'modules.json')
    """
    check(destination, format)
    with ExitStack() as stack:
        preset = stack.enter_context(Preset.open(source))
        checkpoint = preset.checkpoint
        heads = sorted(checkpoint.heads)
        parts = {part: checkpoint.weights(part) for part in ("encoder", *heads)}
        bar = stack.enter_context(progress_bar(sum(map(len, parts.values())), "weights", progress))
        unfinished = stack.enter_context(files.directory_written_whole(Path(destination), "", overwrite=False))
        for weights in parts.values():
            weights.on_read = bar.update
        tokenizer, left_out = _tokenizer_of(preset), []
        if format == "hugging_face":
            _write_hugging_face(unfinished, preset, parts, tokenizer)
        else:
            formats.write(unfinished, checkpoint.config, parts, format)
            if tokenizer is not None:
                tokenizer.save_preset(unfinished)
            entries = [f"{hugging_face.CONFIG}: {key}" for key in _task_entries(preset)]
            left_out = [*model_files.present(preset.home, model_files.SETTINGS), *entries]
    unexpected, remarks = checkpoint.unexpected, checkpoint.remarks
    return Converted(checkpoint.config, checkpoint.format, heads, tokenizer is not None, unexpected, left_out, remarks)


def check(destination: str | Path, format: str) -> None:
    """Raises FileExistsError, OSError or ValueError if `convert` cannot write this directory or format."""
    path = Path(destination)
    if path.exists() and not files.is_empty_directory(path):
        raise FileExistsError(f"{destination} exists; choose another name")
    files.check_writable(destination)
    check_format(format)


def _tokenizer_of(preset: Preset) -> Tokenizer | None:
    from keras_bert.text import load_tokenizer  # imports TensorFlow

    with suppress(FileNotFoundError):
        return load_tokenizer(preset)


def _task_entries(preset: Preset) -> dict[str, Any]:
    return {**hugging_face.task_settings(preset), **preset.checkpoint.entries}


def _write_hugging_face(
    directory: Path, preset: Preset, weights: Mapping[str, Mapping[str, np.ndarray]], tokenizer: Tokenizer | None
) -> None:
    config, settings = preset.checkpoint.config, _task_entries(preset)
    of_library = read_library_files(preset, None if tokenizer is None else tokenizer.vocabulary_size)
    library = of_library and of_library[0]
    if (scores := preset.once(cross_encoder.read)).is_declared:
        settings = {**cross_encoder.entries(scores.activation), **settings}
    own = model_files.present(preset.directory, model_files.OWN)
    formats.write(directory, config, weights, settings=settings)
    for name in own:
        read_checked(preset.directory / name)
        shutil.copyfile(preset.directory / name, directory / name)
    if tokenizer is not None:
        tokenizer.save_preset(directory)
    shape = {hugging_face.SETTINGS: ({"task": (str, None), "model": (dict, None)}, None)}
    files.check_json(settings, shape, preset.directory / hugging_face.CONFIG)
    ours = settings.get(hugging_face.SETTINGS) or {}
    task, reads_pairs = ours.get("task"), bool((ours.get("model") or {}).get("pairs"))
    if of_library is not None:
        library, theirs, more = of_library
        LIBRARIES[library].write(directory, theirs, config, more, tokenizer)
    task = OF_LIBRARY[library].model if library else task
    model_card.write(
        directory,
        config,
        weights.keys() - {"encoder"},
        task=task,
        labels=hugging_face.labels_of(settings, directory / hugging_face.CONFIG),
        reads_pairs=reads_pairs,
        library=library,
        note=note(config, settings, has_crf=CRF in own),
        licence=model_card.licence_of(preset.home),
    )
