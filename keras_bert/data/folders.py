"""A directory per class -> texts and labels."""

from __future__ import annotations

from pathlib import Path

from keras_bert.data.decoding import one_text, read_text
from keras_bert.data.examples import TextExamples
from keras_bert.data.labels import checked_name
from keras_bert.data.problems import Problems


def read_folders(path: str | Path, *, skip_bad: bool = False) -> TextExamples:
    """Reads texts, one a file, from directories named after their classes: `pos/*.txt`, `neg/*.txt`.

    Texts are sorted by class and file name, so that their order is the same everywhere. Directories whose name starts
    with a dot, and files with another extension, are ignored.

    Args:
        path: the directory of the classes' directories.
        skip_bad: leave out the files that cannot be used, with a warning that counts them, instead of raising.

    Raises:
        OSError: a directory or file cannot be read.
        ValueError: there is no class directory, or one has no `.txt` files or a name that cannot be a label; or files
            are empty, not UTF-8, or links to nothing.

    Warns:
        UserWarning: files are left out.

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
            raise ValueError(f"{entry} is a link to {entry.readlink()}, which does not exist; mend it, or remove it")
    classes = [entry for entry in entries if entry.is_dir()]
    if not classes:
        raise ValueError(f"{path} has no directories, where one for each class is expected")
    problems = Problems(path, "files")
    texts, labels, total = [], [], 0
    for folder in classes:
        try:
            checked_name(folder.name)
        except ValueError as error:
            raise ValueError(f"{path}: of a directory, the {error}") from None
        files = sorted(file for file in folder.glob("*.txt") if file.is_file() or not file.exists())
        if not files:
            raise ValueError(f"{folder} should hold the texts of a class, but has no .txt files")
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
