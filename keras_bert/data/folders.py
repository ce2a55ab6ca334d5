"""Reads a directory per class: texts and labels."""

from __future__ import annotations

from pathlib import Path

from keras_bert.data.examples import TextExamples
from keras_bert.data.problems import Problems, one_text
from keras_bert.data.tables import checked_name
from keras_bert.files import read_text


def read_folders(path: str | Path, *, skip_bad: bool = False) -> TextExamples:
    """Reads texts, one per file, from directories named after their classes: `pos/*.txt`, `neg/*.txt`.

    Texts are sorted by class and file name. Directories whose name begins with a dot, and files with another extension,
    are ignored. With `skip_bad`, bad files are left out, with a warning, instead of raising.

    Raises:
        ValueError: as every reader (see `keras_bert.data`); or a class, or all of them, has no `.txt` files;
            a class's name cannot be a label; or a file is a broken link.

    Example:
        >>> import pathlib, tempfile
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> for name, text in {"pos/1.txt": "What a film!", "neg/1.txt": "I left."}.items():
        ...     (root / name).parent.mkdir()
        ...     _ = (root / name).write_text(text)
        >>> read_folders(root)
        TextExamples(texts=['I left.', 'What a film!'], pairs=None, labels=['neg', 'pos'])
    """
    path = Path(path)
    entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
    for entry in entries:
        if not entry.exists():
            raise ValueError(f"{entry} is a link to {entry.readlink()}, which does not exist; repair or remove it")
    classes = [entry for entry in entries if entry.is_dir()]
    if not classes:
        raise ValueError(f"{path} has no directories; expected one for each class")
    problems = Problems(path, "files")
    texts, labels, total = [], [], 0
    for folder in classes:
        try:
            checked_name(folder.name)
        except ValueError as error:
            raise ValueError(f"{path}: of a directory, the {error}") from None
        files = sorted(file for file in folder.glob("*.txt") if file.is_file() or not file.exists())
        if not files:
            raise ValueError(f"{folder} has no .txt files; expected the texts of a class")
        total += len(files)
        for file in files:
            name = f"{folder.name}/{file.name}"
            try:
                if not file.exists():
                    raise ValueError(f"is a link to {file.readlink()}, which does not exist")
                texts.append(one_text(read_text(file), name))
                labels.append(folder.name)
            except ValueError as error:
                problems.add(name, str(error).removeprefix(str(file)).lstrip(", "))
    problems.settle(total, skip_bad)
    return TextExamples(texts, labels=labels)
