"""An export as a model, beside bare ONNX Runtime with Hugging Face's tokenizer: all-MiniLM-L6-v2, without TensorFlow.

python benchmarks/engines.py [--rounds 9] [--texts 2000] [--rows 20000] [--threads 0] [--only start one many embed]
    [--precision float32 int8] [--runtimes onnx openvino]

`runtimes.load(...).encode` on one text of 9 and of 77 tokens, then on many sentences of STS-B, which all sides sort by
length and cut into the same batches, in float32 and in int8; bare ONNX Runtime has the files of its own optimizer and
quantizer. Beside them, the model in TensorFlow. "start" is a process that answers one text. Then a file of texts by
`embed_files`, beside sentence-transformers with backend="onnx" on the same export. --threads is for one operation; 0 is
the default of each.
"""

import functools
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _measure import MINILM, heading, options, parse, present, race, rate, run, sentences, table
from _minilm_onnx import onnx_fused, onnx_int8, session, tokenizer, vectors

from keras_bert.runtimes import load

LIBRARIES = ["onnxruntime", "openvino", "tokenizers", "sentence-transformers", "optimum-onnx"]
PRECISIONS, RUNTIMES = ["float32", "int8"], ["onnx", "openvino"]
PARTS = ("train", "dev")  # of STS-B
TENSORFLOW = "TensorFlow, float32"
BATCH_TOKENS = 1024  # the default of `encode`

Encode = Callable[[list[str]], np.ndarray]  # texts -> float32 [texts, hidden], of length 1


def export(form: str, precision: str, folder: Path) -> Path:
    """The model's export. Another process makes it, and takes TensorFlow with it."""
    directory = folder / f"{form}-{precision}"
    command = [sys.executable, "-m", "keras_bert.cli", "export", form, "--preset", MINILM, "--precision", precision]
    subprocess.run([*command, "--output", str(directory)], check=True, stdout=sys.stderr)
    return directory


def exported(form: str, precision: str, folder: Path, threads: int) -> Encode:
    model = load(export(form, precision, folder), threads=threads or None)
    return functools.partial(model.encode, batch_tokens=BATCH_TOKENS, progress=False)


def bare(precision: str, threads: int) -> Encode:
    """ONNX Runtime, its own optimized file, and the same batches."""
    from keras_bert.answers.by_length import rows_by_length

    compute = session(onnx_fused() if precision == "float32" else onnx_int8(), threads)
    tokenize = tokenizer().encode_batch

    def encode(texts: list[str]) -> np.ndarray:
        ids = [each.ids for each in tokenize(texts)]
        batches = rows_by_length(np.array([*map(len, ids)]), BATCH_TOKENS)
        found = np.concatenate([vectors(compute, [ids[row] for row in rows]) for rows in batches])
        return found[np.argsort(np.concatenate(batches))]

    return encode


def in_tensorflow() -> Encode:
    from keras_bert import BertSentenceEncoder

    model = BertSentenceEncoder.from_preset(MINILM)
    return functools.partial(model.encode, batch_tokens=BATCH_TOKENS, progress=False)


_ANSWER_ONE = """
import psutil
{open}({handle!r}).encode("I love pizza", progress=False)
print(psutil.Process().memory_info().rss / 1e6)
"""


def start(open_it: str, handle: str) -> tuple[float, float]:
    """The seconds of a process that answers one text, and its megabytes then."""
    imports, _, open_it = open_it.partition("; ")
    begin, program = time.perf_counter(), imports + _ANSWER_ONE.format(open=open_it, handle=handle)
    printed = subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE).stdout
    return time.perf_counter() - begin, float(printed)


def text_of(tokens: int) -> str:
    """A text of so many tokens, with the special ones: each of these words is a token."""
    words = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "and"]
    return " ".join((words * tokens)[: tokens - 2])


def calls_per_second(encode: Encode, text: str, calls: int) -> float:
    """The calls in a second on one text, by the median call."""
    seconds = []
    for _ in range(calls):
        begin = time.perf_counter()
        encode([text])
        seconds.append(time.perf_counter() - begin)
    return 1 / float(np.median(seconds))


def embedding(directory: Path, texts: list[str], folder: Path) -> dict[str, Callable[[], Callable[[], object]]]:
    """Ways to embed a file of texts as a file of vectors."""

    def ours() -> Callable[[], object]:
        from keras_bert.embedding import embed_files

        file, numbers = folder / "texts.jsonl", itertools.count()  # a directory that is there would not be done again
        file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
        return lambda: embed_files([file], folder / f"vectors-{next(numbers)}", directory, progress=False)

    def theirs() -> Callable[[], object]:
        import optimum.onnxruntime  # noqa: F401, the backend needs it
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(str(directory), backend="onnx", device="cpu")
        return lambda: np.save(folder / "theirs.npy", model.encode(texts, batch_size=32))

    return {"embed_files": ours, 'sentence-transformers, backend="onnx"': theirs}


def main() -> None:
    parts = {"only": ["start", "one", "many", "embed"], "precision": PRECISIONS, "runtimes": RUNTIMES}
    parser = options(__doc__, rounds=9, texts=2000, rows=20_000, threads=0, **parts)
    arguments = parse(parser, rounds=1, texts=20, rows=50, precision=["float32"], runtimes=["onnx"])
    heading(LIBRARIES)
    rounds, calls, base = arguments.rounds, 2 if arguments.small else 20, "ONNX Runtime, float32"
    with tempfile.TemporaryDirectory() as name:
        folder, starts = Path(name), {TENSORFLOW: in_tensorflow}
        for precision in arguments.precision:
            starts[f"ONNX Runtime, {precision}"] = functools.partial(bare, precision, arguments.threads)
            for form in arguments.runtimes:
                label = f"load, {form}, {precision}"
                starts[label] = functools.partial(exported, form, precision, folder, arguments.threads)
        encoders: dict[str, Encode] = present(starts)
        base = base if base in encoders else ()
        if "start" in arguments.only:
            task = "from keras_bert import BertSentenceEncoder; BertSentenceEncoder.from_preset"
            sources = {TENSORFLOW: (task, MINILM)}
            for form, precision in itertools.product(arguments.runtimes, arguments.precision):
                export = ("from keras_bert.runtimes import load; load", str(folder / f"{form}-{precision}"))
                sources[f"load, {form}, {precision}"] = export
            found = {each: [start(*source) for _ in range(max(1, rounds // 3))] for each, source in sources.items()}
            medians = {each: np.median(values, axis=0) for each, values in found.items()}
            rows = [[each, f"{seconds:.1f}", f"{size:.0f}"] for each, (seconds, size) in medians.items()]
            table(["a process that answers one text", "s", "MB then"], rows)
        columns = ["to ONNX Runtime, float32" if base else "to the fastest"]
        if "one" in arguments.only:
            for tokens in (9, 77):
                text = text_of(tokens)
                jobs = {each: functools.partial(calls_per_second, encoders[each], text, calls) for each in encoders}
                table([f"one text of {tokens} tokens", "texts/s", *columns], race(jobs, rounds, base))
        if "many" in arguments.only:
            texts = sentences(arguments.texts, *PARTS)
            works = {each: functools.partial(encode, texts) for each, encode in encoders.items()}
            jobs = {each: functools.partial(rate, work, len(texts)) for each, work in works.items()}
            rows = [*race(jobs, max(1, rounds // 3), base)]
            exact = next(iter(encoders.values()))(texts)
            cosines = {each: (encode(texts) * exact).sum(axis=1) for each, encode in encoders.items()}
            table(
                [f"{len(texts):,} sentences", "texts/s", *columns, "cosine, mean", "cosine, worst"],
                ([*row, f"{cosines[row[0]].mean():.4f}", f"{cosines[row[0]].min():.4f}"] for row in rows),
            )
        if "embed" in arguments.only:
            known = sentences(arguments.rows, *PARTS)
            texts = (known * (arguments.rows // len(known) + 1))[: arguments.rows]
            ways = present(embedding(folder / f"{arguments.runtimes[0]}-{arguments.precision[0]}", texts, folder))
            jobs = {each: functools.partial(rate, work, len(texts)) for each, work in ways.items()}
            rows = race(jobs, max(1, rounds // 9), "embed_files", warm=False)
            table([f"a file of {len(texts):,} texts", "texts/s", "to embed_files"], rows)


if __name__ == "__main__":
    run(main)
