"""Long texts, from strings to vectors, with ModernBERT-Base's shapes, beside transformers (SDPA) on the CPU.

python benchmarks/long_texts.py [--rounds 3] [--only 128 mixed] [--layers 22] [--precision bfloat16]

Weights are random: only time and memory count. Each row of the table is a kind of input: one text of 128, of 1,024, of
8,192 pieces, and 64 texts of mixed lengths (most of them short, up to 2,048 pieces, in batches sorted by length on both
sides). Seconds are those of a round, interleaved; the ratio is transformers' seconds by ours, within each round. Memory
is the largest resident set of a process that does one round, less that before it. With --precision bfloat16, both sides
compute in it; int8 is ours alone, and transformers' is bfloat16. Cosines are those of our vectors to theirs.
"""

import argparse
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from _measure import cores, growth, heading, in_new_process, interleave, options, parse, rate, ratios, run, table

from keras_bert.inference import PRECISIONS

KINDS = ["128", "1024", "8192", "mixed"]
_WORDS = 1000
_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_TOKENS_A_BATCH = 8192


def texts_of(kind: str) -> list[str]:
    """Texts of words that are one piece each; two special tokens are part of the length."""
    generator = np.random.default_rng(0)
    lengths = [int(kind)] if kind != "mixed" else np.clip(generator.lognormal(5, 1, 64).astype(int), 16, 2048)
    return [" ".join(f"w{i}" for i in generator.integers(0, _WORDS, length - 2)) for length in lengths]


def write_model(directory: Path, layers: int) -> None:
    """ModernBERT-Base with random weights and a vocabulary of words."""
    from keras_bert import BertConfig, BertEncoder
    from keras_bert.text import WordPieceTokenizer

    vocabulary = [*_SPECIAL, *(f"w{i}" for i in range(_WORDS))]
    config = BertConfig.named("modernbert-base", num_layers=layers, vocab_size=len(vocabulary), pad_token_id=0)
    BertEncoder(config).save_preset(directory)
    WordPieceTokenizer(vocabulary).save_preset(directory)


def ours(directory: Path, precision: str):
    from keras_bert import BertEncoder, BertPreprocessor, BertSentenceEncoder

    preprocessor = BertPreprocessor.from_preset(directory, sequence_length=None, max_sequence_length=8192)
    model = BertSentenceEncoder(BertEncoder.from_preset(directory), preprocessor, normalize=False)
    model.set_precision(precision, texts_of("mixed")[:16] if precision == "int8" else None)
    return lambda texts: model.encode(texts, batch_tokens=_TOKENS_A_BATCH, progress=False)


def theirs(directory: Path, precision: str):
    import torch
    import transformers

    dtype = torch.float32 if precision == "float32" else torch.bfloat16
    model = transformers.AutoModel.from_pretrained(directory, attn_implementation="sdpa", dtype=dtype).eval()
    tokenizer = transformers.BertTokenizer.from_pretrained(directory)
    torch.set_num_threads(cores())

    def encode(texts):
        vectors = [None] * len(texts)
        for rows in _batches([len(text.split()) + 2 for text in texts]):
            inputs = tokenizer([texts[row] for row in rows], padding=True, return_tensors="pt")
            inputs.pop("token_type_ids", None)
            with torch.inference_mode():
                hidden = model(**inputs).last_hidden_state
            mask = inputs["attention_mask"].unsqueeze(2)
            hidden = hidden.float()
            for row, vector in zip(rows, (hidden * mask).sum(1) / mask.sum(1), strict=True):
                vectors[row] = vector.numpy()
        return np.stack(vectors)

    return encode


_MAKE = {"keras_bert": ours, "transformers": theirs}


def _batches(lengths: list[int]) -> list[list[int]]:
    """Rows sorted by length, in batches of up to `_TOKENS_A_BATCH` tokens with padding, as keras_bert makes them."""
    batches: list[list[int]] = [[]]
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if (len(batches[-1]) + 1) * lengths[row] > _TOKENS_A_BATCH and batches[-1]:
            batches.append([])
        batches[-1].append(row)
    return batches


def print_memory(directory: str, side: str, kind: str, precision: str) -> None:
    """GB that one round needs, in a process of its own."""
    encode = _MAKE[side](Path(directory), precision)
    encode(["w1 w2"])
    print(growth(lambda: encode(texts_of(kind))) / 1e9)


def rows_of(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yields the rows of the table. The difference is the largest between vectors, and the cosine the lowest."""
    with tempfile.TemporaryDirectory() as directory:
        write_model(Path(directory), arguments.layers)
        encoders = {side: make(Path(directory), arguments.precision) for side, make in _MAKE.items()}
        for kind in arguments.only:
            texts = texts_of(kind)
            vectors = [encode(texts) for encode in encoders.values()]  # traces, and warms up
            cosines = (vectors[0] * vectors[1]).sum(1) / np.prod([np.linalg.norm(each, axis=1) for each in vectors], 0)
            difference = np.abs(vectors[0] - vectors[1]).max()
            works = {side: partial(encode, texts) for side, encode in encoders.items()}
            jobs = {side: partial(rate, work, len(texts)) for side, work in works.items()}
            rates = interleave(jobs, arguments.rounds)
            seconds = [f"{len(texts) / np.median(rates[side]):.2f}" for side in _MAKE]
            sides = () if arguments.small else _MAKE  # each imports its library again
            given = [(directory, side, kind, arguments.precision) for side in sides]
            sizes = [in_new_process(f"import long_texts; long_texts.print_memory(*{each})") for each in given]
            gigabytes = [f"{float(size):.2f}" for size in sizes] or ["", ""]
            yield [kind, *seconds, ratios(*rates.values()), *gigabytes, f"{difference:.1e}", f"{cosines.min():.5f}"]


def main() -> None:
    parser = options(__doc__, rounds=3, only=KINDS, layers=22)
    parser.add_argument("--precision", choices=PRECISIONS, default="float32")
    arguments = parse(parser, rounds=1, only=["128"], layers=1)
    heading(["keras", "tensorflow", "torch", "transformers"])
    print(f"{arguments.layers} layers, {arguments.precision}")
    both = ("keras_bert, s", "transformers, s", "ratio", "keras_bert, GB", "transformers, GB")
    table(("pieces", *both, "difference", "cosine"), rows_of(arguments))


if __name__ == "__main__":
    run(main)
