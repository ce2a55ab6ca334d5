"""Whether ids are those of the reference, line by line: Hugging Face's tokenizers, and Google's sentencepiece.

python benchmarks/same_ids.py [--lines 1000000] [--data DIR] [--directories DIR ...]

Each directory has a `tokenizer.json`, or a SentencePiece model (`spm.model`), whose reference is then that library.
Lines come in turn from books, from Python code with its indentation, and from a generator that draws characters from
all of Unicode, beside each other and within words. One table: lines, lines whose ids differ, and the first of these.

Lines are counted apart whose ids are equal without the characters that the two treat differently on their own:
`tokenizers` has older tables of Unicode, and begins one block of ideographs (U+2B820) 256 characters late. So are ties:
lines whose tokens differ, but have equal scores in sum. Up to 0.2.1, sentencepiece decides these as TensorFlow Text
does; to compare with another version than the installed one, put it in a directory, and that into PYTHONPATH.
"""

import itertools
import math
import random
import sys
import sysconfig
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from _measure import DATA, heading, need, options, parse, run, table

NAMES = ["modernbert-base", "deberta-v3-base", "all-mpnet-base-v2", "e5-small-v2", "nomic-bert-2048"]
ASSIGNED = [chr(i) for i in range(sys.maxunicode + 1) if unicodedata.category(chr(i)) not in ("Cn", "Cs", "Co")]
Tokenize = Callable[[list[str]], list[list[int]]]
Score = Callable[[list[int]], float]
_BATCH = 5000
_TIE = 1e-6  # relative to a line's score, which these libraries compute in float32


def lines(books_in: Path) -> Iterator[str]:
    """Without end: of a book, of code, of Unicode, in turn; books and code begin again when they are over."""
    books = itertools.chain.from_iterable(map(_lines_of, itertools.cycle(sorted(books_in.glob("*.txt")))))
    sources = sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py"))
    code = itertools.chain.from_iterable(map(_lines_of, itertools.cycle(sources)))
    for triple in zip(books, code, _unicode(), strict=False):
        yield from triple


def _lines_of(path: Path) -> list[str]:
    return path.read_text("utf-8", errors="ignore").split("\n")


def _unicode() -> Iterator[str]:
    draw = random.Random(0)
    common = [chr(i) for i in range(0x20, 0x250)]
    joined = "the|naïve|日本語|don't|we'll|<s>|[MASK]|```|--|\t|\n|1234567|ﬁ|Ａ|１"
    words = joined.split("|")
    while True:
        parts = draw.choices((ASSIGNED, common, words), (2, 2, 3), k=draw.randrange(1, 25))
        yield draw.choice(("", " ")).join(draw.choice(part) for part in parts)


def reference(directory: Path) -> tuple[str, Tokenize, Score | None]:
    """The name of the reference, texts -> ids without special tokens around them, and ids -> the score that decides."""
    if (model := directory / "spm.model").is_file():
        import sentencepiece

        processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
        name = f"sentencepiece {sentencepiece.__version__}"
        return name, processor.encode, lambda ids: math.fsum(map(processor.get_score, ids))
    import tokenizers

    found = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    found.no_padding()
    found.no_truncation()
    # Special tokens in a text are text, as for the tokenizers here.
    found.encode_special_tokens = True
    name = f"tokenizers {tokenizers.__version__}"
    return name, lambda texts: [each.ids for each in found.encode_batch(texts, add_special_tokens=False)], None


def different(ours: Tokenize, theirs: Tokenize, texts: Iterable[str]) -> list[str]:
    """The texts whose ids differ."""
    source, wrong = iter(texts), []
    for batch in iter(lambda: list(itertools.islice(source, _BATCH)), []):
        pairs = zip(batch, ours(batch), theirs(batch), strict=True)
        wrong += [text for text, mine, other in pairs if mine != other]
    return wrong


def compare(directory: Path, count: int, books_in: Path) -> tuple[str, int, list[str], list[str]]:
    """The reference, the number of lines that differ by their characters alone, those by ties, and the others."""
    from keras_bert.text import load_tokenizer

    tokenizer, (name, theirs, score) = load_tokenizer(directory), reference(directory)

    def ours(texts: list[str]) -> list[list[int]]:
        return tokenizer.tokenize(texts).to_list()

    wrong = different(ours, theirs, itertools.islice(lines(books_in), count))
    if not wrong:
        return name, 0, [], []
    odd = set()
    # Within a word, at its end, behind a mark that composes, behind one that does not (marks change places under NFC).
    for before, behind in (("a", "b"), ("a", " b"), ("a\u0301", "b"), ("a\u2de0", "b")):
        found = different(ours, theirs, (f"{before}{char}{behind}" for char in ASSIGNED))
        odd |= {text[len(before)] for text in found}
    without = ["".join(char for char in text if char not in odd) for text in wrong]
    others = set(different(ours, theirs, without))
    others = [text for text, rest in zip(wrong, without, strict=True) if rest in others]
    by_character, ties = len(wrong) - len(others), []
    if score and others:
        scores = zip(others, map(score, ours(others)), map(score, theirs(others)), strict=True)
        ties = [text for text, mine, other in scores if math.isclose(mine, other, rel_tol=_TIE)]
    return name, by_character, ties, [text for text in others if text not in ties]


def main() -> None:
    parser = options(__doc__, lines=1_000_000, data=DATA, tokenizers=NAMES)
    parser.add_argument("--directories", type=Path, nargs="+", help="in place of those in the data")
    arguments = parse(parser, lines=600, tokenizers=NAMES[:1])
    need(arguments.data / "gutenberg")
    directories = arguments.directories or [arguments.data / "modern" / name for name in arguments.tokenizers]
    need(*directories)
    heading(["tensorflow", "tensorflow-text"])
    shown, unexplained = [], 0

    def counts(directory: Path) -> list[str]:
        nonlocal unexplained
        name, by_character, ties, others = compare(directory, arguments.lines, arguments.data / "gutenberg")
        unexplained += len(others)
        shown.extend([*ties[:3], *others])
        return [directory.name, name, *(f"{n:,}" for n in (arguments.lines, by_character, len(ties), len(others)))]

    columns = ("tokenizer", "reference", "lines", "differ by their characters", "by ties", "others")
    table(columns, map(counts, directories))
    for text in shown:
        print(f"    {text!r}")
    sys.exit(unexplained > 0)


if __name__ == "__main__":
    run(main)
