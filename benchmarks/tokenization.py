"""MB/s of BERT tokenization on real text, beside Hugging Face tokenizers, TF Text's two tokenizers and KerasHub.

python benchmarks/tokenization.py [--kind wordpiece bytepair sentencepiece] [--data DIR] [--rounds 7] [--megabytes 6]
    [--batch-size 1000] [--only "KerasHub BertTokenizer"]

One table for all kinds of tokenizers: BERT's WordPiece, RoBERTa's byte pairs (`vocabs/roberta_vocab.json` and
`roberta_merges.txt` of --data) and ALBERT's SentencePiece (`albert_spiece.model`).

Each contestant runs in a process of its own (thread counts cannot change later, and Hugging Face and TensorFlow each
have their pool), which waits for its turn: all of them do round 1, then round 2, and so on. The texts are paragraphs of
the books in `gutenberg/`, handed over in the form that the library takes (str, or string tensors) before the clock
starts. TensorFlow runs with one intra-op and one inter-op thread; the two-thread rows split each batch in two.
"""

import argparse
import functools
import itertools
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from _measure import DATA, MINILM, Elsewhere, heading, need, options, parse, present, race, rate, run, table, text_files

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


def paragraphs(files: list[Path], megabytes: float) -> list[str]:
    """The same share of each file, up to so much in all."""
    texts: list[str] = []
    for path in files:
        room = 1e6 * megabytes / len(files)
        for text in filter(None, (" ".join(text.split()) for text in re.split(r"\n\s*\n", path.read_text("utf-8")))):
            if (room := room - len(text.encode())) < 0:
                break
            texts.append(text)
    return texts


def tokenizer_of(kind: str, vocabularies: Path):
    """Ours, from the files."""
    from keras_bert.text import BytePairTokenizer, SentencePieceTokenizer, WordPieceTokenizer

    if kind == "wordpiece":
        return WordPieceTokenizer.from_preset(MINILM, max_chars_per_word=MAX_CHARS)
    need(vocabularies)
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


def take_part(name: str, folder: str) -> Callable[[str], float]:
    """In a process of its own: writes its ids, and times a round whenever it is asked."""
    job = json.loads(Path(folder, "job.json").read_text())
    batches, run, to_lists = contestant(name, CONTESTANTS[name], job["batches"], job["kind"], Path(folder))
    ids = [row for texts in batches for row in to_lists(run(texts))]  # also warms up
    Path(folder, f"{name}.json").write_text(json.dumps(ids))
    return lambda _: rate(lambda: [run(texts) for texts in batches], job["megabytes"])


def main() -> None:
    numbers = {"rounds": 7, "megabytes": 6.0, "batch_size": 1000}
    parser = options(__doc__, kind=list(KINDS), data=DATA, only=list(CONTESTANTS), **numbers)
    arguments = parse(parser, kind=["wordpiece"], rounds=1, megabytes=0.3, only=[BASELINE])
    texts = paragraphs(text_files(arguments.data / "gutenberg", arguments.small), arguments.megabytes)
    heading(PEERS)
    size = sum(len(text.encode()) for text in texts) / 1e6
    print(f"{len(texts)} paragraphs of books, {size:.1f} MB, {sum(map(str.isascii, texts))} of them pure ASCII")
    print(f"Median (lowest..highest) of {arguments.rounds} rounds, batches of {arguments.batch_size}.")
    batches = [texts[i : i + arguments.batch_size] for i in range(0, len(texts), arguments.batch_size)]
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
    names = [name for name in names if name in (REFERENCE, BASELINE, *arguments.only)]
    with tempfile.TemporaryDirectory() as folder:
        ours = tokenizer_of(kind, arguments.data / "vocabs")
        ours.save_preset(folder)
        Path(folder, "job.json").write_text(json.dumps({"batches": batches, "kind": kind, "megabytes": size}))
        start = functools.partial(functools.partial, Elsewhere, "tokenization", "take_part")
        workers = present({name: start(name, folder) for name in names})
        ids = {name: json.loads(Path(folder, f"{name}.json").read_text()) for name in workers}
    jobs = {name: functools.partial(worker, "round") for name, worker in workers.items()}
    for name, *figures in race(jobs, arguments.rounds, BASELINE, digits=1, warm=False):
        pairs = list(zip(ids[name], ids[REFERENCE], strict=True))
        yield [title, name, *figures, sum(one != other for one, other in pairs)]
        for theirs, mine in pairs:
            if theirs != mine:
                around = _around_difference(mine, theirs, ours.vocabulary)
                notes.append(f"- {title}, {name}: the first difference is {around}")
                break


def _around_difference(ours: list[int], theirs: list[int], tokens: list[str]) -> str:
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    show = lambda ids: " ".join(tokens[i] for i in ids[max(0, at - 2) : at + 6])  # noqa: E731
    return f"`{show(theirs)}` in place of `{show(ours)}`"


if __name__ == "__main__":
    run(main)
