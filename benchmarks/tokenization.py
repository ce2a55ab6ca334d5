"""MB/s of BERT tokenization on real text, beside Hugging Face tokenizers, TF Text's two tokenizers and KerasHub.

python benchmarks/tokenization.py [--kind wordpiece bytepair sentencepiece] [--vocabularies DIR] [--text FILE ...]
    [--rounds 7] [--megabytes 6] [--batch-size 1000]

One table for each kind of tokenizer: BERT's WordPiece, RoBERTa's byte pairs (`roberta_vocab.json`, `roberta_merges.txt`
in DIR) and ALBERT's SentencePiece (`albert_spiece.model` in DIR).

Each contestant runs in a process of its own (thread counts cannot change later, and Hugging Face and TensorFlow each
have their pool), which waits for its turn: all of them do round 1, then round 2, and so on. The texts are paragraphs,
handed over in the form that the library takes (str, or string tensors) before the clock starts. TensorFlow runs with
one intra-op and one inter-op thread; the two-thread rows split each batch in two. Ratios are taken within a round.
"""

import argparse
import importlib.metadata
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from _measure import DATA, heading, parse, run, table

REPOSITORY = Path(__file__).resolve().parents[1]
BOOKS = DATA / "gutenberg"
VOCABULARIES = DATA / "vocabs"
CONTESTANTS = {  # name -> threads
    "keras_bert tokenize": 1,
    "keras_bert tokenize, 2 threads": 2,
    "keras_bert tokenize_with_offsets": 1,
    "keras_bert tokenize_with_offsets, 2 threads": 2,
    "Hugging Face tokenizers": 1,  # always gives offsets
    "Hugging Face tokenizers, 2 threads": 2,
    "Hugging Face encode_batch_fast": 1,  # leaves the offsets out
    "TF Text FastBertTokenizer": 1,
    "TF Text BertTokenizer": 1,
    "KerasHub BertTokenizer": 1,
}
BASELINE = "Hugging Face tokenizers"
REFERENCE = "keras_bert tokenize"
OF_EVERY_KIND = ("keras_bert tokenize", "keras_bert tokenize_with_offsets", BASELINE, "Hugging Face encode_batch_fast")
KINDS = {  # kind -> heading, contestants
    "wordpiece": ("BERT's WordPiece", tuple(CONTESTANTS)),
    "bytepair": ("RoBERTa's byte pairs", OF_EVERY_KIND),
    "sentencepiece": ("ALBERT's SentencePiece", OF_EVERY_KIND),
}
PEERS = ("tensorflow", "tensorflow-text", "tokenizers", "keras-hub", "keras")
MAX_CHARS = 100  # of a word; Hugging Face's limit, set here too, so that ids can be compared


def paragraphs(files: list[Path], megabytes: float) -> tuple[list[str], str]:
    """Real text and what it is: --text, else the books, else the prose that comes with Python and its packages."""
    if not files and BOOKS.is_dir():
        files, source = sorted(BOOKS.glob("*.txt")), "ten books of Project Gutenberg"
    elif not files:
        files = sorted(Path(importlib.metadata.__file__).parents[1].rglob("*.txt"))
        files += sorted(path for path in Path(sys.prefix).rglob("LICENSE*") if path.is_file())
        source = "texts and licences that come with Python and its packages (--text FILE for your own)"
    else:
        source = ", ".join(path.name for path in files)
    texts: list[str] = []
    for path in files:  # the same share of each
        found = (" ".join(text.split()) for text in re.split(r"\n\s*\n", path.read_text("utf-8", errors="ignore")))
        room = megabytes * 1e6 / len(files) if megabytes else float("inf")
        for text in filter(None, found):
            if (room := room - len(text.encode())) < 0:
                break
            texts.append(text)
    return texts, source


def tokenizer_of(kind: str, vocabularies: Path):
    """Ours, from the files. Raises FileNotFoundError where they are not."""
    from keras_bert.text import BytePairTokenizer, SentencePieceTokenizer, WordPieceTokenizer

    if kind == "wordpiece":
        return WordPieceTokenizer.from_preset("all-MiniLM-L6-v2", max_chars_per_word=MAX_CHARS)
    if kind == "bytepair":
        return BytePairTokenizer(*(vocabularies / f"roberta_{name}" for name in ("vocab.json", "merges.txt")))
    return SentencePieceTokenizer(vocabularies / "albert_spiece.model")


def hugging_face_tokenizer(kind: str, preset: Path):
    import tokenizers

    if kind == "wordpiece":
        return tokenizers.BertWordPieceTokenizer(str(preset / "vocab.txt"), lowercase=True)._tokenizer
    if kind == "bytepair":
        files = (str(preset / name) for name in ("vocab.json", "merges.txt"))
        return tokenizers.ByteLevelBPETokenizer(*files)._tokenizer
    return tokenizers.Tokenizer.from_file(str(preset / "tokenizer.json"))


def contestant(name: str, threads: int, batches: list[list[str]], kind: str, preset: Path):
    """-> (prepared batches, function of one, function of its result to lists of ids)."""
    if name.startswith("Hugging Face"):
        os.environ["RAYON_NUM_THREADS"] = str(threads)
        os.environ["TOKENIZERS_PARALLELISM"] = str(threads > 1).lower()
        tokenizer = hugging_face_tokenizer(kind, preset)
        encode = tokenizer.encode_batch_fast if "fast" in name else tokenizer.encode_batch
        run = lambda texts: encode(texts, add_special_tokens=False)  # noqa: E731
        return batches, run, lambda result: [encoding.ids for encoding in result]

    import tensorflow as tf
    import tensorflow_text as tf_text

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tensors = [tf.constant(texts) for texts in batches]
    vocabulary = str(preset / "vocab.txt")
    lists = lambda result: result.to_list()  # noqa: E731
    batch = [tf.TensorSpec([None], tf.string)]
    if name.startswith("keras_bert"):
        from keras_bert.text import load_tokenizer

        tokenizer = load_tokenizer(preset, **({"max_chars_per_word": MAX_CHARS} if kind == "wordpiece" else {}))
        if "offsets" in name:
            run, lists = tokenizer.tokenize_with_offsets, lambda result: result[0].to_list()
        else:
            run = tokenizer.tokenize
    elif name == "TF Text FastBertTokenizer":
        tokens = Path(vocabulary).read_text("utf-8").splitlines()
        tokenizer = tf_text.FastBertTokenizer(tokens, token_out_type=tf.int32, lower_case_nfd_strip_accents=True)
        run = tf.function(tokenizer.tokenize, input_signature=batch)
    elif name == "TF Text BertTokenizer":
        tokenizer = tf_text.BertTokenizer(vocabulary, lower_case=True, token_out_type=tf.int32)
        run = tf.function(lambda texts: tokenizer.tokenize(texts).merge_dims(-2, -1), input_signature=batch)
    else:
        import keras_hub

        tokenizer = keras_hub.models.BertTokenizer(vocabulary=vocabulary, lowercase=True)
        run = tf.function(tokenizer.tokenize, input_signature=batch)
    if threads == 1:
        return tensors, run, lists
    pool = ThreadPoolExecutor(threads)
    halves = [(tensor[: len(tensor) // 2], tensor[len(tensor) // 2 :]) for tensor in tensors]
    return halves, lambda pair: list(pool.map(run, pair)), lambda pair: [ids for half in pair for ids in lists(half)]


def work(name: str) -> None:
    """One process: prepares, writes its ids, then times a round for every line that it reads."""
    job = json.loads(sys.stdin.readline())
    batches, run, to_lists = contestant(name, CONTESTANTS[name], job["batches"], job["kind"], Path(job["preset"]))
    ids = [row for texts in batches for row in to_lists(run(texts))]  # also warms up
    Path(job["ids"]).write_text(json.dumps(ids))
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        for texts in batches:
            run(texts)
        print(time.perf_counter() - start, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", nargs="*", choices=KINDS, default=list(KINDS), help="of tokenizer; default: all")
    parser.add_argument(
        "--vocabularies", type=Path, default=VOCABULARIES, help="folder with those of byte pairs and SentencePiece"
    )
    parser.add_argument("--text", type=Path, nargs="*", default=[], help="UTF-8 files; paragraphs are the texts")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--megabytes", type=float, default=6, help="how much of the text; 0: all")
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--only", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS), help=f"beside {REFERENCE}")
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    arguments = parse(parser, kind=["wordpiece"], rounds=1, megabytes=0.3, only=[BASELINE])
    if arguments.contestant:
        return work(arguments.contestant)

    heading(PEERS)
    sys.path.insert(0, str(REPOSITORY))
    texts, source = paragraphs(arguments.text, arguments.megabytes)
    size = sum(len(text.encode()) for text in texts) / 1e6
    batches = [texts[i : i + arguments.batch_size] for i in range(0, len(texts), arguments.batch_size)]
    print(f"{len(texts)} paragraphs, {size:.1f} MB, {sum(map(str.isascii, texts))} of them pure ASCII: {source}")
    print(f"Median (lowest to highest) of {arguments.rounds} rounds, batches of {arguments.batch_size}.")
    notes: list[str] = []
    rows = itertools.chain.from_iterable(compare(kind, arguments, batches, size, notes) for kind in arguments.kind)
    table(("kind", "contestant", "MB/s", f"times {BASELINE}", "texts with other ids"), rows)
    for note in notes:
        print(note)


def compare(
    kind: str, arguments: argparse.Namespace, batches: list[list[str]], size: float, notes: list[str]
) -> Iterator[list[object]]:
    """Times the contestants of one kind of tokenizer on `size` megabytes: the rows of the table, and notes on them."""
    title, names = KINDS[kind]
    names = [name for name in names if name in (REFERENCE, *arguments.only)]
    try:
        ours = tokenizer_of(kind, arguments.vocabularies)
    except FileNotFoundError as error:
        notes.append(f"{title}: left out ({error}; --vocabularies DIR says where it is)")
        return
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    workers, ids = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        ours.save_preset(folder)
        for i, name in enumerate(names):
            worker = subprocess.Popen(
                [sys.executable, __file__, "--contestant", name],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            job = {"batches": batches, "kind": kind, "preset": folder, "ids": f"{folder}/{i}.json"}
            print(json.dumps(job), file=worker.stdin, flush=True)
            if worker.stdout.readline().strip() == "ready":
                workers[name], ids[name] = worker, json.loads(Path(job["ids"]).read_text())
            else:
                notes.append(f"left out: {name} ({worker.communicate()[1].strip().splitlines()[-1]})")

    seconds: dict[str, list[float]] = {name: [] for name in workers}
    for _ in range(arguments.rounds):
        for name, worker in workers.items():
            print("go", file=worker.stdin, flush=True)
            seconds[name].append(float(worker.stdout.readline()))
    for worker in workers.values():
        worker.stdin.close()
        worker.wait()

    baseline = seconds.get(BASELINE)
    for name, times in seconds.items():
        ratio = ""
        if baseline:
            ratios = [theirs / its for theirs, its in zip(baseline, times, strict=True)]
            ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        differ = sum(a != b for a, b in zip(ids[name], ids[REFERENCE], strict=True))
        yield [title, name, f"{size / statistics.median(times):.1f}", ratio, differ]
    for name in ids:
        row = next((i for i, reference in enumerate(ids[REFERENCE]) if ids[name][i] != reference), None)
        if row is not None:
            around = _around_difference(ids[REFERENCE][row], ids[name][row], ours.vocabulary)
            notes.append(f"- {title}, {name}: the first difference is {around}")


def _around_difference(ours: list[int], theirs: list[int], tokens: list[str]) -> str:
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    show = lambda ids: " ".join(tokens[i] for i in ids[max(0, at - 2) : at + 6])  # noqa: E731
    return f"`{show(theirs)}` in place of `{show(ours)}`"


if __name__ == "__main__":
    run(main)
