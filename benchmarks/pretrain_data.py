"""From files of text to masked batches: megabytes of text a second, beside Hugging Face's usual way.

python benchmarks/pretrain_data.py [--data FOLDER] [--rounds 5]

Every .txt file of FOLDER (by default the books of ../shared/data/gutenberg beside the repository), one epoch in random
order, from opening the files to the last batch of 32 rows of 128 tokens, 15% of them masked anew each time they are
seen; nothing is left from the round before. keras_bert: `write_records` (in one process, and in as many as there are
cores, each of which has to import TensorFlow first), `Records.shuffled`, `MaskedLMMasking`; and, told separately, all
but the first, which is what every further epoch takes. Hugging Face: `load_dataset("text")`, `map` with a fast
tokenizer, `map` that groups tokens into rows, as transformers' run_mlm.py does both, in as many processes as there are
cores, and a DataLoader with as many workers around `DataCollatorForLanguageModeling`. A text is a line there, as
run_mlm.py reads them, or a paragraph, which leaves out most of the [CLS] and [SEP] around lines.

Equal: the texts, the vocabulary, the length of a row, the share of masks, the cores. Not equal: keras_bert finds
documents and sentences, and fills a row with whole sentences of one document, which leaves some padding at its end;
theirs fills each row to the last token, across texts, and drops what is left of every thousand texts. keras_bert masks
15% of each row, theirs 15% on average; and it gives positions and the tokens that were there, where theirs gives labels
for the whole row. Each has a process of its own, and libraries are imported before.
"""

import functools
import itertools
import os
import tempfile
from collections.abc import Callable

from _measure import DATA, MINILM, Elsewhere, cores, heading, options, parse, race, rate, run, table, text_files

LENGTH, BATCH = 128, 32


def keras_bert(files: list[str]) -> Callable[[str], None]:
    import tensorflow as tf

    from keras_bert import BertPreprocessor
    from keras_bert.pretraining import MaskedLMMasking, Records, unmasked, write_records

    preprocessor = BertPreprocessor.from_preset(MINILM, sequence_length=LENGTH)
    masking = MaskedLMMasking(preprocessor.tokenizer, predictions=round(0.15 * LENGTH))
    kept = tempfile.TemporaryDirectory()

    def write(folder: str, processes: int = 1) -> None:
        options = {"processes": processes, "part_bytes": -(-sum(map(os.path.getsize, files)) // processes)}
        write_records(files, folder, preprocessor, objective="sentences", progress=False, **options)

    def stream(folder: str) -> None:
        records = Records(folder)
        batches = records.shuffled(BATCH, seed=0).enumerate()
        masked = batches.map(
            lambda step, batch: masking(unmasked(batch), [0, tf.cast(step, tf.int32)]), tf.data.AUTOTUNE
        )
        for _ in masked.prefetch(4).take(-(-records.count // BATCH)):
            pass

    def work(part: str) -> None:
        if part == "streaming":
            if not os.listdir(kept.name):
                write(kept.name)  # in the round that is not counted
            stream(kept.name)
            return
        with tempfile.TemporaryDirectory() as folder:
            write(folder, processes=cores() if part == "processes" else 1)
            stream(folder)

    return work


def hugging_face(files: list[str]) -> Callable[[str], None]:
    os.environ["USE_TF"] = "0"  # for `datasets`, whose processes are forks of this one
    import datasets
    import torch
    import transformers

    from keras_bert import presets

    datasets.disable_caching()
    datasets.disable_progress_bars()
    transformers.logging.set_verbosity_error()
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(presets.resolve(MINILM)))
    collate = transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)

    def tokenized(texts: dict[str, list]) -> dict[str, list]:
        return tokenizer(texts["text"], return_special_tokens_mask=True)

    def grouped(rows: dict[str, list]) -> dict[str, list]:
        joined = {name: list(itertools.chain.from_iterable(values)) for name, values in rows.items()}
        whole = len(joined["input_ids"]) // LENGTH * LENGTH
        return {name: [ids[i : i + LENGTH] for i in range(0, whole, LENGTH)] for name, ids in joined.items()}

    def work(text_is: str) -> None:
        with tempfile.TemporaryDirectory() as cache:
            texts = datasets.load_dataset("text", data_files=files, split="train", sample_by=text_is, cache_dir=cache)
            tokens = texts.map(tokenized, batched=True, num_proc=cores(), remove_columns=["text"])
            rows = tokens.map(grouped, batched=True, num_proc=cores())
            for _ in torch.utils.data.DataLoader(rows, BATCH, shuffle=True, collate_fn=collate, num_workers=cores()):
                pass

    return work


CONTESTANTS = {"keras_bert": keras_bert, "hugging_face": hugging_face}
# What the table says -> who does what.
OURS = {
    "keras_bert": ("keras_bert", "all"),
    "keras_bert, a process for each core": ("keras_bert", "processes"),
    "keras_bert, all but `write_records`": ("keras_bert", "streaming"),
}
THEIRS = {
    "Hugging Face, line by line": ("hugging_face", "line"),
    "Hugging Face, by paragraphs": ("hugging_face", "paragraph"),
}


def take_part(name: str, files: list[str], megabytes: float) -> Callable[[str], float]:
    """In a process of its own."""
    work = CONTESTANTS[name](files)
    return lambda what: rate(lambda: work(what), megabytes)


def main() -> None:
    arguments = parse(options(__doc__, data=DATA / "gutenberg", rounds=5), rounds=1)
    files = [str(path) for path in text_files(arguments.data, arguments.small)]
    megabytes = sum(map(os.path.getsize, files)) / 1e6
    heading(["tensorflow", "torch", "transformers", "tokenizers", "datasets"])
    print(f"{megabytes:.1f} MB")
    workers = {name: Elsewhere("pretrain_data", "take_part", name, files, megabytes) for name in CONTESTANTS}
    jobs = {name: functools.partial(workers[who], what) for name, (who, what) in {**OURS, **THEIRS}.items()}
    rows = race(jobs, arguments.rounds, THEIRS, digits=2, warm=not arguments.small)
    table(("from text to masked batches", "MB/s", "beside the faster of theirs"), rows)


if __name__ == "__main__":
    run(main)
