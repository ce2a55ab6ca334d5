"""Publishes the directory of a model on the Hugging Face Hub."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from keras_bert import files
from keras_bert.extras import import_extra
from keras_bert.formats import Preset, model_card, model_files

_FILES = (*model_files.MODEL, *model_files.TOKENIZER, *model_files.SETTINGS)
_OF_A_RUN = (model_card.FILE, "report.md", "learning_curve.png", "confusion_matrix.png")


class Upload(NamedTuple):
    """What `push_to_hub` sends.

    Attributes:
        files: the names of the files that go.
        left_out: the names of those that stay, such as the state of a run in `training/`.
        url: the page of the commit; None after a dry run.
    """

    files: list[str]
    left_out: list[str]
    url: str | None


def push_to_hub(directory: str | Path, repository: str, *, private: bool = True, dry_run: bool = False) -> Upload:
    """Publishes a model on the Hugging Face Hub, where `from_preset("hf://org/name")` and `transformers` find it.

    The files of the model go, its card, and its report. Read the card before: it says what it knows of data, measures
    and licence, and you know more.

    Args:
        directory: a directory that `save_preset` or a training wrote.
        repository: "org/name", created if missing.
        private: whether a new repository is private.
        dry_run: whether only to list the files.

    Raises:
        FileNotFoundError: there is no model in the directory.
        ImportError: huggingface_hub is not installed (the extra `hf`).
        OSError: the Hub refuses it; run `hf auth login` first.
        ValueError: the directory has no model card, its configuration is damaged, or a file is a link to one elsewhere.

    Example:
        >>> import tempfile
        >>> from keras_bert import BertConfig, BertEncoder
        >>> directory = tempfile.mkdtemp()
        >>> BertEncoder(BertConfig.named("bert-tiny")).save_preset(directory)
        >>> push_to_hub(directory, "me/my-bert", dry_run=True).files
        ['README.md', 'config.json', 'model.safetensors']
    """
    home = Path(directory)
    with Preset.open(home) as preset:
        preset.check()
    if not (home / model_card.FILE).is_file():
        raise ValueError(f"{directory} has no {model_card.FILE}, the model card; write one")
    sent = sorted(model_files.present(home, (*_FILES, *_OF_A_RUN)))
    if links := [name for name in sent if files.leads_outside(home / name, home)]:
        target = os.path.realpath(home / links[0])
        raise ValueError(
            f"{home / links[0]} leads to {target}, outside of the directory, which would be published; copy it there, "
            "or remove the link"
        )
    names = (str(path.relative_to(home)) for path in sorted(home.rglob("*")) if path.is_file())
    left_out, url = [name for name in names if name not in sent], None
    if not dry_run:
        api = import_extra("huggingface_hub", "huggingface_hub", extra="hf").HfApi()
        api.create_repo(repository, private=private, exist_ok=True)
        message = "Upload a model of keras_bert"
        url = str(api.upload_folder(repo_id=repository, folder_path=home, allow_patterns=sent, commit_message=message))
    return Upload(sent, left_out, url)
