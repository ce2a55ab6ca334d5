"""A BERT-Tiny made of nothing but eleven megabytes of text, on a processor, and what it is good for.

python benchmarks/pretrain_from_scratch.py learn [--steps 14000]
python benchmarks/pretrain_from_scratch.py finetune [--seeds 3]
python benchmarks/pretrain_from_scratch.py kill [--steps 600]

`learn`: a vocabulary of 8,000 tokens and a BERT-Tiny (2 layers, 128 wide), from nine books and nine tenths of the Brown
corpus, by masks and next sentence; how many masked tokens of a tenth book it finds, beside two who know only how
frequent tokens are; and how often it sees whether a sentence follows another, where the other one is taken from
elsewhere in that book, and where it is from there or any of fifty unseen texts of Brown's. It leaves the model, with
its learning curve, in --output/model; run again, it goes on where it stopped.
`finetune`: that model, and one of the same architecture with random weights, on 10,000 sentences of SST-2, by one
recipe. `kill`: a run of its own that is ended by SIGKILL twice, at random moments, and begun again; its weights beside
those of a run that nobody disturbed. The data lies in ../shared/data beside the repository, or in --data.
"""

import argparse
import functools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from _finetune_tasks import CLASSES, TASKS, label_names, some
from _measure import DATA, MissingError, heading, need, parse, run, table

from keras_bert import BertClassifier, BertConfig, BertEncoder, BertPreprocessor
from keras_bert.formats import read_config
from keras_bert.pretraining import BertPretrainer, MaskedLMMasking, Records, unmasked, write_records
from keras_bert.text import WordPieceTokenizer, learn_vocabulary
from keras_bert.training import pretrain, report
from keras_bert.training.run import load_state

OUTPUT = Path(__file__).parents[1] / "saved_models/pretrained_from_scratch"
HELD_OUT = "The-Adventures-of-Sherlock-Holmes_1661.txt"
LENGTH, BATCH, PREDICTIONS = 128, 32, 20
PANELS = {
    "loss of the held-out book": ["val_masked_lm_loss", "val_next_sentence_loss"],
    "accuracy on the held-out book": ["val_masked_lm_accuracy", "val_next_sentence_accuracy"],
}

# -- text


def write_texts(data: Path, folder: Path, is_small: bool) -> None:
    """Fills `learned`, `book` and `texts` in a folder; the last two are held out, and the book is in both.

    With `is_small`, there are two books and ten texts of the Brown corpus.
    """
    for name in ("learned", "book", "texts"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    books = sorted((data / "gutenberg").glob("*.txt"))
    if is_small:
        books = [data / "gutenberg" / HELD_OUT, min(books, key=os.path.getsize)]
    for path in books:
        # Without Project Gutenberg's own words before and behind, which are the same in every book.
        _, body, _ = re.split(r"^\*\*\* ?(?:START|END) OF TH.*$", path.read_text("utf-8"), flags=re.MULTILINE)
        for name in ("book", "texts") if path.name == HELD_OUT else ("learned",):
            (folder / name / path.name).write_text(body)
    with zipfile.ZipFile(data / "brown/brown.zip") as archive:
        names = [name for name in sorted(archive.namelist()) if re.fullmatch(r"brown/c[a-r]\d\d", name)]
        for i, name in enumerate(names[:10] if is_small else names):
            text = without_tags(archive.read(name).decode())
            (folder / ("texts" if i % 10 == 0 else "learned") / f"{Path(name).name}.txt").write_text(text)


def without_tags(tagged: str) -> str:
    """`The/at jury/nn said/vbd` -> `The jury said`, a sentence a line."""
    words = re.sub(r"(\S+)/\S+", r"\1", tagged).replace("``", '"').replace("''", '"')
    return "\n".join(line.strip() for line in words.splitlines() if line.strip())


def prepare(data: Path, folder: Path, is_small: bool) -> tuple[BertPreprocessor, dict[str, Path]]:
    """The preprocessor, and the folders of records: to learn from, and of what is held out; what is there stays."""
    texts = folder / "texts"
    write_texts(data, texts, is_small)
    if not (folder / "vocabulary/vocab.txt").exists():
        learn_vocabulary([texts / "learned"], 8000).save_preset(folder / "vocabulary", overwrite=True)
    preprocessor = BertPreprocessor(WordPieceTokenizer.from_preset(folder / "vocabulary"), LENGTH)
    records = {name: folder / "records" / name for name in ("learned", "book", "texts")}
    for name, directory in records.items():
        files = sorted((texts / name).glob("*.txt"))
        copies = 10 if name == "learned" and not is_small else 1
        counts = write_records(files, directory, preprocessor, copies=copies, predictions=PREDICTIONS)
        print(f"{name}: {counts['tokens']:,} tokens, {counts['examples']:,} examples", file=sys.stderr, flush=True)
    return preprocessor, records


# -- learn


def learn(arguments: argparse.Namespace) -> None:
    folder = arguments.output
    heading(["tensorflow", "keras"])
    preprocessor, records = prepare(arguments.data, folder, arguments.small)
    keras.utils.set_random_seed(0)
    # Without dropout: in so few steps it learns too little, not too much (Geiping and Goldstein 2022).
    size = preprocessor.tokenizer.vocabulary_size
    config = BertConfig.named("bert-tiny", vocab_size=size, hidden_dropout=0.0, attention_dropout=0.0)
    model = BertPretrainer(BertEncoder(config), preprocessor)
    recipe = {"batch_size": BATCH, "learning_rate": arguments.learning_rate, "warmup": 0.05}
    measure_every = max(1, arguments.steps // 20)
    start = time.perf_counter()
    history = pretrain(
        model,
        records["learned"],
        arguments.steps,
        folder / arguments.run,
        validation=records["book"],
        masking=MaskedLMMasking(preprocessor.tokenizer, PREDICTIONS),
        measure_every=measure_every,
        checkpoint_seconds=arguments.checkpoint_seconds,
        **recipe,
    )
    print(f"trained for {(time.perf_counter() - start) / 60:.1f} minutes")
    by_step = [{"step": min(each.pop("epoch") * measure_every, arguments.steps), **each} for each in history]
    directory = folder / arguments.run / "model"
    model.save_preset(directory, overwrite=True)
    report.write_report(directory, {"steps": arguments.steps, **recipe}, by_step, by_step[-1], panels=PANELS)
    names = ["step", "loss", "val_masked_lm_accuracy", "val_next_sentence_accuracy"]
    table(
        names,
        ([f"{each[name]:.4}" if isinstance(each[name], float) else each[name] for name in names] for each in by_step),
    )
    shares = {"masked tokens": by_step[-1]["val_masked_lm_accuracy"]}
    shares |= frequencies(preprocessor, Records(records["learned"]), Records(records["book"]))
    for name, others in (("book", "elsewhere in it"), ("texts", "of it or of any of 50 texts of Brown's")):
        right, always = next_sentence(model, Records(records[name]))
        shares |= {f"next sentence, the other one {others}": right, f"the same, always one answer, {name}": always}
    table((f"of {HELD_OUT.partition('_')[0]}", "right"), ([name, f"{share:.1%}"] for name, share in shares.items()))


def next_sentence(model: BertPretrainer, records: Records) -> tuple[float, float]:
    """How many pairs are told right; and how many would be by the same answer to all."""
    right, labels = [], []
    for batch in records.in_order(256):
        labels.extend(batch["next_sentence_labels"].numpy())
        inputs = {name: value for name, value in batch.items() if name.startswith("input_")}
        logits = model({**inputs, "masked_lm_positions": batch["masked_lm_positions"]}, training=False)
        right.extend(np.argmax(logits["next_sentence"], -1) == batch["next_sentence_labels"])
    share = np.mean(labels)
    return float(np.mean(right)), float(max(share, 1 - share))


def frequencies(preprocessor: BertPreprocessor, learned: Records, validation: Records) -> dict[str, float]:
    """How many of the masked tokens of a text is right who knows only how often each token occurs in another."""
    tokenizer = preprocessor.tokenizer
    size = tokenizer.vocabulary_size
    counts, masked = np.zeros(size), np.zeros(size)
    for batch in learned.in_order(4096):
        counts += np.bincount(unmasked(batch)["input_word_ids"].numpy().ravel(), minlength=size)
    for token in tokenizer.special_tokens.values():
        counts[tokenizer.vocabulary.index(token)] = 0
    for batch in validation.in_order(4096):
        ids, weights = batch["masked_lm_ids"].numpy(), batch["masked_lm_weights"].numpy()
        masked += np.bincount(ids.ravel(), weights.ravel(), minlength=size)
    p, q = counts / counts.sum(), masked / masked.sum()
    return {
        f"always {tokenizer.vocabulary[p.argmax()]!r}, the most frequent": float(q[p.argmax()]),
        "drawn by their frequency": float(p @ q),
    }


# -- finetune


def finetune(arguments: argparse.Namespace) -> None:
    from finetune import our_scores, spread

    directory = arguments.output / arguments.run / "model"
    if not directory.is_dir():
        raise MissingError(f"there is no {directory}: `learn` first")
    heading(["tensorflow", "keras"])
    task = TASKS["sst2"]
    train, dev = some(task.read(arguments.data, "train"), arguments.examples), task.read(arguments.data, "dev")
    labels = label_names(train, CLASSES)
    preprocessor = BertPreprocessor.from_preset(directory, sequence_length=LENGTH)
    config = read_config(directory / "config.json")
    beginnings = {
        "pre-trained": functools.partial(BertEncoder.from_preset, directory),
        "random": functools.partial(BertEncoder, config),
    }
    arguments.learning_rate, arguments.batch_size = arguments.finetune_learning_rate, 32

    def accuracy(encoder: Callable[[], BertEncoder]) -> str:
        model = functools.partial(classifier, encoder, preprocessor, labels)
        runs = [our_scores(model, task, train, dev, seed, arguments) for seed in range(arguments.seeds)]
        return spread([each["accuracy"] for each in runs])

    table(
        ("weights to begin with", f"accuracy, SST-2, {len(train):,} sentences, {arguments.seeds} seeds"),
        ([name, accuracy(encoder)] for name, encoder in beginnings.items()),
    )


def classifier(encoder, preprocessor: BertPreprocessor, labels: list[str]) -> BertClassifier:
    return BertClassifier(encoder(), preprocessor, labels)


# -- kill


def kill(arguments: argparse.Namespace) -> None:
    heading(["tensorflow", "keras"])
    table(("run", "what happened"), killed(arguments))


def killed(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yields the rows of the table. The status is 1 if the weights are not the same."""
    shutil.rmtree(arguments.output / "unbroken", ignore_errors=True)
    shutil.rmtree(arguments.output / "broken", ignore_errors=True)
    prepare(arguments.data, arguments.output, arguments.small)
    started = time.perf_counter()
    if start(arguments, "unbroken").wait():
        sys.exit("the run has failed")
    seconds = time.perf_counter() - started
    for _ in range(2):
        process = start(arguments, "broken")
        time.sleep(random.uniform(0.3, 0.5) * seconds)
        if process.poll() is not None:
            sys.exit("the run was over before it was killed: give it more --steps")
        process.send_signal(signal.SIGKILL)
        process.wait()
        state = arguments.output / "broken/state.safetensors"
        notes = load_state(state)[1] if state.exists() else {"epoch": 0, "step": 0}
        done = notes["epoch"] * max(1, arguments.steps // 20) + notes["step"]
        yield ["killed", f"{done} of {arguments.steps} steps are kept"]
    if start(arguments, "broken").wait():
        sys.exit("the run has failed")
    first, second = (
        (arguments.output / run / "model/model.safetensors").read_bytes() for run in ("unbroken", "broken")
    )
    yield ["begun again", f"weights are {'those' if first == second else 'NOT THOSE'} of an undisturbed run"]
    if first != second:
        sys.exit(1)


def start(arguments: argparse.Namespace, run: str) -> subprocess.Popen:
    command = [sys.executable, __file__, "learn", "--run", run, "--checkpoint-seconds", "1"]
    for name in ("data", "output", "steps", "learning_rate"):
        command += [f"--{name.replace('_', '-')}", str(getattr(arguments, name))]
    command += ["--small"] if arguments.small else []
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["learn", "finetune", "kill"], default="learn")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the folder for all that is made")
    parser.add_argument("--run", default="run", help="the folder in it for the state of a run, and its model")
    parser.add_argument("--steps", type=int, help="batches; default: 14,000, to `kill` 600")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="of `learn`")
    parser.add_argument("--checkpoint-seconds", type=float, default=60, help="of `learn`")
    parser.add_argument("--examples", type=int, default=10000, help="of `finetune`")
    parser.add_argument("--epochs", type=int, default=3, help="of `finetune`")
    parser.add_argument("--finetune-learning-rate", type=float, default=3e-4)
    parser.add_argument("--seeds", type=int, default=3, help="of `finetune`")
    arguments = parse(parser, output=None, steps=4, examples=32, epochs=1, seeds=1)
    arguments.steps = arguments.steps or (600 if arguments.what == "kill" else 14000)
    need(*(arguments.data / name for name in ("gutenberg", "brown/brown.zip", "sst2")))
    with tempfile.TemporaryDirectory() as folder:
        arguments.output = arguments.output or Path(folder)
        {"learn": learn, "finetune": finetune, "kill": kill}[arguments.what](arguments)


if __name__ == "__main__":
    run(main)
