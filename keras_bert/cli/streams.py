"""Input and output of the commands: texts from arguments, a file or a pipe; files written whole or not at all."""

from __future__ import annotations

import contextlib
import functools
import json
import select
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import click

from keras_bert import files, presets

if TYPE_CHECKING:
    import numpy as np
    from tqdm import tqdm

    from keras_bert import BertSentenceEncoder

T = TypeVar("T")

# Commands hold this many texts at a time: enough to batch by length, few enough for any memory.
TEXTS_AT_A_TIME = 2048
_BYTES_AT_A_TIME = 1 << 16  # the capacity of a pipe
_MOMENT = 0.02  # seconds

_FORMAT_OF_EXTENSION = {".jsonl": "jsonl", ".npy": "npy", ".txt": "text"}


class Misuse(click.ClickException):
    """An error that the user can correct: one line on standard error, exit code 2."""

    exit_code = 2


@dataclass(frozen=True)
class Lines:
    """Input lines that are not decoded yet."""

    raw: Iterable[bytes]  # UTF-8, with or without line ends
    place: str  # in messages, the text before a line's number: "reviews.txt, line"
    would_wait: Callable[[], bool] = lambda: False  # whether the next line has not arrived yet
    count: Callable[[], int | None] = lambda: None  # the number of lines; None if it is unknown

    def progress(self) -> tqdm:
        """A progress bar that counts texts, on a terminal; with the time left if their number is known."""
        from tqdm import tqdm

        total = self.count() if sys.stderr.isatty() else None
        return tqdm(total=total, unit=" texts", delay=1, disable=None)  # None: only on a terminal

    def parsed(self, parse: Callable[[str], T] = str) -> Iterator[T]:
        """Decodes and parses each line. Raises Misuse, with the line's number, for bad UTF-8 or a ValueError."""
        for number, line in enumerate(self.raw, start=1):
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")  # the byte order mark of Windows editors
            try:
                yield parse(line.removesuffix(b"\n").removesuffix(b"\r").decode())
            except UnicodeDecodeError as error:
                byte = error.object[error.start]
                raise Misuse(
                    f"{self.place} {number} is not UTF-8: bad byte {byte:#04x} at byte {error.start}; "
                    "convert the text first, for instance with iconv"
                ) from None
            except ValueError as error:
                raise Misuse(f"{self.place} {number}: {error}") from None

    def chunks(self, parse: Callable[[str], T] = str) -> Iterator[list[T]]:
        """The parsed lines in lists of up to `TEXTS_AT_A_TIME`; a list ends early if the next line has not arrived."""
        chunk = []
        for each in self.parsed(parse):
            chunk.append(each)
            if len(chunk) == TEXTS_AT_A_TIME or self.would_wait():
                yield chunk
                chunk = []
        if chunk:
            yield chunk


class Arriving:
    """The lines of a file, or of a pipe that may still be written to."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self._lines: deque[bytes] = deque()

    def __iter__(self) -> Iterator[bytes]:
        begun: list[bytes] = []  # parts of an unfinished line
        while came := self.file.read1(_BYTES_AT_A_TIME):
            first, *others = came.split(b"\n")
            begun.append(first)
            if others:
                self._lines.extend([b"".join(begun), *others[:-1]])
                begun = [others[-1]]
            while self._lines:
                yield self._lines.popleft()
        if last := b"".join(begun):
            yield last

    def would_wait(self) -> bool:
        """Whether the next line has not arrived, and nothing arrives in a moment."""
        try:
            return not self._lines and not select.select([self.file], [], [], _MOMENT)[0]
        except ValueError:  # in memory, without a file descriptor
            return False


def tokenizer_of(directory: Path) -> Any:
    """A checkpoint's tokenizer; None if it has no vocabulary."""
    from keras_bert.text.loading import load_tokenizer

    try:
        return load_tokenizer(directory)
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def misuse(*more: type[Exception], **options: str) -> Iterator[None]:
    """In this block, ImportError, ValueError and `more` become Misuse, with the message in one line.

    `options`: a word of the message -> the option to name in its place.
    """
    try:
        yield
    except (ImportError, ValueError, *more) as error:
        message = one_line(error).replace("pass overwrite=True", "use --overwrite")
        for word, option in options.items():
            message = message.replace(word, option)
        raise Misuse(message) from error


def find_preset(ctx: click.Context, parameter: click.Parameter, handle: str) -> Path:
    """A callback of click: the directory of a handle."""
    with misuse(OSError):
        return presets.resolve(handle)


_MODEL_HELP = "The model: the name of an installed preset, a directory, or hf://org/name."

file_option = click.option("--file", metavar="FILE", help="Read texts from FILE, one per line; - is standard input.")
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace FILE of --output if it exists.")
# The name of a preset, and its directory.
handle_option = click.option("--preset", default="all-MiniLM-L6-v2", metavar="MODEL", help=_MODEL_HELP)
preset_option = click.option(
    "--preset", default="all-MiniLM-L6-v2", callback=find_preset, metavar="MODEL", help=_MODEL_HELP
)
batch_tokens_option = click.option(
    "--batch-tokens", type=int, default=1024, help="The tokens per batch, padding included."
)

prompt_option = click.option(
    "--prompt",
    metavar="NAME",
    help='The name of the model\'s prompt to put before each text, such as query; "" for none. By default, the '
    "model's default prompt.",
)


def together(*options: Callable[[Callable], Callable]) -> Callable[[Callable], Callable]:
    """Combines options into one decorator."""
    return lambda command: functools.reduce(lambda inner, option: option(inner), reversed(options), command)


texts_argument = click.argument("text", nargs=-1)


def texts_to(*formats: str, preset: bool = True, texts: Callable = texts_argument) -> Callable[[Callable], Callable]:
    """The arguments and options of a command that reads texts and writes one of these formats, by default the first.

    The command gets the input `lines`, the open output `results`, the `output_format`, and, if `preset`, the preset.
    """
    formats_help = f"The format to write. By default that of FILE in --output (.jsonl, .npy, .txt), else {formats[0]}."
    options = together(
        texts,
        file_option,
        *([preset_option] if preset else []),
        click.option(
            "--format", "output_format", type=click.Choice(formats), callback=_choose_format, help=formats_help
        ),
        click.option(
            "--output", metavar="FILE", is_eager=True, help="Write to FILE; after an error, no file is written."
        ),
        overwrite_option,
    )

    def add_to(command: Callable) -> Callable:
        @functools.wraps(command)
        def with_files(text: tuple[str, ...], file: str | None, output: str | None, overwrite: bool, **more) -> None:
            lines = open_texts(text, file)
            with open_output(output, overwrite) as results:
                command(lines=lines, results=results, **more)

        return options(with_files)

    return add_to


def _choose_format(ctx: click.Context, parameter: click.Parameter, given: str | None) -> str:
    formats, output = parameter.type.choices, ctx.params.get("output")  # --output is eager: it is known by now
    guessed = _FORMAT_OF_EXTENSION.get(Path(output or "").suffix)
    if not given and guessed and guessed not in formats:
        raise Misuse(f"{output}: {ctx.info_name} does not write {guessed}; choose --format {' or '.join(formats)}")
    chosen = given or guessed or formats[0]
    if chosen == "npy" and output in (None, "-"):
        raise Misuse("the format npy needs --output FILE")
    return chosen


def load(from_preset: Callable[..., T], preset: Path, **arguments: Any) -> T:
    """`from_preset(preset, **arguments)`. Raises Misuse if files are missing or damaged, or an argument is bad."""
    with misuse(OSError):
        return from_preset(preset, **arguments)


def one_line(error: Exception) -> str:
    """An exception's message in one line."""
    return " ".join(str(error).split())


def open_texts(arguments: tuple[str, ...], file: str | None) -> Lines:
    """The input: arguments, a file, or a pipe. Raises Misuse if there is none."""
    if arguments and file:
        raise Misuse("give texts as arguments or in --file, not both")
    if arguments:
        # Python makes surrogates of bytes that are not UTF-8; this restores the bytes.
        raw = (argument.encode("utf-8", "surrogateescape") for argument in arguments)
        return Lines(raw, "argument", count=lambda: len(arguments))
    if file and file != "-":
        lines = Arriving(_opened(file))
        return Lines(_closing(lines), f"{file}, line", lines.would_wait, functools.partial(_count_lines, Path(file)))
    if not file and (sys.stdin is None or sys.stdin.isatty()):
        raise Misuse("nothing to read; give texts as arguments, in --file FILE, or through a pipe")
    lines = Arriving(click.get_binary_stream("stdin"))
    return Lines(lines, "standard input, line", lines.would_wait)


def _opened(file: str) -> BinaryIO:
    try:
        return open(file, "rb")
    except OSError as error:
        raise Misuse(f"cannot read {file}: {error.strerror}") from error


def _count_lines(path: Path) -> int | None:
    if not path.is_file():  # a pipe can be read only once
        return None
    count, last = 0, b"\n"
    with open(path, "rb") as file:
        while block := file.read(_BYTES_AT_A_TIME):
            count, last = count + block.count(b"\n"), block
    return count + (not last.endswith(b"\n"))


def _closing(lines: Arriving) -> Iterator[bytes]:
    with lines.file:
        yield from lines


def encoded(model: BertSentenceEncoder, lines: Lines, batch_tokens: int) -> Iterator[tuple[list[str], np.ndarray]]:
    """Chunks of texts with their vectors. Raises Misuse if `--batch-tokens` is too small."""
    with lines.progress() as bar:
        for texts in lines.chunks():
            with misuse():
                vectors = model.encode(texts, batch_tokens, progress=False)
            yield texts, vectors
            bar.update(len(texts))


@contextlib.contextmanager
def open_output(output: str | None, overwrite: bool) -> Iterator[BinaryIO]:
    """Opens standard output, or a file that exists only if the block ends without an exception.

    Raises Misuse if the file exists and `overwrite` is False, or if it cannot be created.
    """
    if output in (None, "-"):
        stdout = click.get_binary_stream("stdout")
        yield stdout
        stdout.flush()
        return
    path = Path(output).resolve()  # the target of a link is replaced, not the link
    _check_output(output, path, overwrite)
    with files.written_whole(path) as unfinished:
        with open(unfinished, "xb") as file:
            yield file
        _check_output(output, path, overwrite)  # another process may have written it


def _check_output(output: str, path: Path, overwrite: bool) -> None:
    if not path.parent.is_dir():
        raise Misuse(f"cannot write {output}: there is no directory {path.parent}")
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        raise Misuse(f"cannot write {output}: it is not a file")
    if path.exists() and not overwrite:
        raise Misuse(f"{output} exists; replace it with --overwrite, or choose another name")


def write_lines(file: BinaryIO, lines: Iterable[str]) -> None:
    """Writes lines as UTF-8, in any locale, and flushes the file."""
    file.writelines(f"{line}\n".encode() for line in lines)
    file.flush()


def shown(text: str) -> str:
    """A text in one line, for people."""
    return " ".join(text.split())


def json_line(**fields: Any) -> str:
    return json.dumps(fields, ensure_ascii=False)
