"""A BERT-Tiny made of nothing but eleven megabytes of text, on a processor, and what it is good for.

python benchmarks/pretrain_from_scratch.py learn [--steps 12000]
python benchmarks/pretrain_from_scratch.py finetune [--seeds 3]
python benchmarks/pretrain_from_scratch.py kill [--steps 600]

`learn`: a vocabulary of 8,000 pieces and a BERT-Tiny (2 layers, 128 wide), from nine books and the Brown corpus, by
masks and next sentence; how many masked pieces of a tenth book it finds, beside two who know only how frequent pieces
are. It leaves the model, with its learning curve, in --output/model; run again, it goes on where it stopped.
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
import time
import zipfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from _finetune_tasks import CLASSES, TASKS, label_names, some
from _measure import cores, versions

from keras_bert import BertClassifier, BertConfig, BertEncoder, BertPreprocessor
from keras_bert.pretraining import BertPretrainer, MaskedLMMasking, Records, unmasked, write_records
from keras_bert.text import WordPieceTokenizer, learn_vocabulary
from keras_bert.training import pretrain, report
from keras_bert.training.state import read_notes

DATA = Path(__file__).parents[2] / "shared/data"
OUTPUT = Path(__file__).parents[1] / "saved_models/pretrained_from_scratch"
HELD_OUT = "The-Adventures-of-Sherlock-Holmes_1661.txt"
LENGTH, BATCH, PREDICTIONS = 64, 64, 10
PANELS = {
    "loss of the held-out book": ["masked_lm_loss", "next_sentence_loss"],
    "accuracy on the held-out book": ["masked_lm_accuracy", "next_sentence_accuracy"],
}

# -- text


def write_texts(data: Path, folder: Path) -> None:
    """Fills `books`, `brown` and `held-out` in a folder."""
    for name in ("books", "brown", "held-out"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for path in sorted((data / "gutenberg").glob("*.txt")):
        # Without Project Gutenberg's own words before and behind, which are the same in every book.
        _, body, _ = re.split(r"^\*\*\* ?(?:START|END) OF TH.*$", path.read_text("utf-8"), flags=re.MULTILINE)
        (folder / ("held-out" if path.name == HELD_OUT else "books") / path.name).write_text(body)
    with zipfile.ZipFile(data / "brown/brown.zip") as archive:
        for name in archive.namelist():
            if re.fullmatch(r"brown/c[a-r]\d\d", name):
                (folder / f"{name}.txt").write_text(without_tags(archive.read(name).decode()))


def without_tags(tagged: str) -> str:
    """`The/at jury/nn said/vbd` -> `The jury said`, a sentence a line."""
    words = re.sub(r"(\S+)/\S+", r"\1", tagged).replace("``", '"').replace("''", '"')
    return "\n".join(line.strip() for line in words.splitlines() if line.strip())


def prepare(data: Path, folder: Path) -> tuple[BertPreprocessor, list[Path], Path]:
    """The preprocessor, the records to learn from, and those of the held-out book; what is there stays."""
    texts = folder / "texts"
    write_texts(data, texts)
    if not (folder / "vocabulary/vocab.txt").exists():
        learn_vocabulary([texts / "books", texts / "brown"], 8000).save_preset(folder / "vocabulary", overwrite=True)
    preprocessor = BertPreprocessor(WordPieceTokenizer.from_preset(folder / "vocabulary"), LENGTH)
    for name, layout, copies in (("books", "prose", 4), ("brown", "sentences", 4), ("held-out", "prose", 1)):
        files = sorted((texts / name).glob("*.txt"))
        options = {"layout": layout, "copies": copies, "predictions": PREDICTIONS}
        counts = write_records(files, folder / "records" / name, preprocessor, **options)
        print(f"{name}: {counts['pieces']:,} pieces, {counts['examples']:,} examples", flush=True)
    learned = [path for name in ("books", "brown") for path in sorted((folder / "records" / name).glob("*.tfrecord"))]
    return preprocessor, learned, folder / "records/held-out"


# -- learn


def learn(arguments: argparse.Namespace) -> None:
    folder = arguments.output
    print(versions(["tensorflow", "keras"]), f"{cores()} cores")
    preprocessor, learned, held_out = prepare(arguments.data, folder)
    keras.utils.set_random_seed(0)
    config = BertConfig.named("bert-tiny", vocab_size=preprocessor.tokenizer.vocabulary_size)
    model = BertPretrainer(BertEncoder(config), preprocessor)
    recipe = {"batch_size": BATCH, "learning_rate": arguments.learning_rate, "warmup": 0.05}
    measure_every = max(1, arguments.steps // 20)
    start = time.perf_counter()
    history = pretrain(
        model,
        learned,
        arguments.steps,
        folder / arguments.run,
        held_out=held_out,
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
    names = ["step", "loss", "masked_lm_accuracy", "next_sentence_accuracy"]
    for each in [dict(zip(names, names, strict=True)), *by_step]:
        print("\t".join(f"{each[name]:.4}" if isinstance(each[name], float) else f"{each[name]}" for name in names))
    print(f"| of {HELD_OUT.partition('_')[0]} | right |")
    print("|---|---|")
    print(f"| masked pieces | {by_step[-1]['masked_lm_accuracy']:.1%} |")
    for name, share in baselines(preprocessor, Records(learned), Records(held_out)).items():
        print(f"| {name} | {share:.1%} |")
    print(f"| next sentence | {by_step[-1]['next_sentence_accuracy']:.1%} |")


def baselines(preprocessor: BertPreprocessor, learned: Records, held_out: Records) -> dict[str, float]:
    """How many of the masked pieces of a text is right who knows only how often each piece occurs in another."""
    tokenizer = preprocessor.tokenizer
    size = tokenizer.vocabulary_size
    counts, masked, follows = np.zeros(size), np.zeros(size), []
    for batch in learned.in_order(4096):
        counts += np.bincount(unmasked(batch)["input_word_ids"].numpy().ravel(), minlength=size)
    for token in tokenizer.special_tokens.values():
        counts[tokenizer.vocabulary.index(token)] = 0
    for batch in held_out.in_order(4096):
        ids, weights = batch["masked_lm_ids"].numpy(), batch["masked_lm_weights"].numpy()
        masked += np.bincount(ids.ravel(), weights.ravel(), minlength=size)
        follows.extend(batch["next_sentence_labels"].numpy())
    p, q = counts / counts.sum(), masked / masked.sum()
    share = np.mean(follows)
    return {
        f"always {tokenizer.vocabulary[p.argmax()]!r}, the most frequent": float(q[p.argmax()]),
        "drawn by their frequency": float(p @ q),
        "next sentence, always the same answer": float(max(share, 1 - share)),
    }


# -- finetune


def finetune(arguments: argparse.Namespace) -> None:
    from finetune import our_scores, spread

    directory = arguments.output / arguments.run / "model"
    if not directory.is_dir():
        sys.exit(f"there is no {directory}: `learn` first")
    task = TASKS["sst2"]
    train, dev = some(task.read(arguments.data, "train"), arguments.examples), task.read(arguments.data, "dev")
    labels = label_names(train, CLASSES)
    preprocessor = BertPreprocessor.from_preset(directory, sequence_length=LENGTH)
    config = BertConfig.read(directory / "config.json")
    beginnings = {
        "pre-trained": functools.partial(BertEncoder.from_preset, directory),
        "random": functools.partial(BertEncoder, config),
    }
    arguments.learning_rate = arguments.finetune_learning_rate
    print(f"| weights to begin with | accuracy, SST-2, {len(train):,} sentences, {arguments.seeds} seeds |")
    print("|---|---|")
    for name, encoder in beginnings.items():
        model = functools.partial(classifier, encoder, preprocessor, labels)
        runs = [our_scores(model, task, train, dev, seed, arguments) for seed in range(arguments.seeds)]
        print(f"| {name} | {spread([run['accuracy'] for run in runs])} |", flush=True)


def classifier(encoder, preprocessor: BertPreprocessor, labels: list[str]) -> BertClassifier:
    return BertClassifier(encoder(), preprocessor, labels)


# -- kill


def kill(arguments: argparse.Namespace) -> None:
    shutil.rmtree(arguments.output / "unbroken", ignore_errors=True)
    shutil.rmtree(arguments.output / "broken", ignore_errors=True)
    prepare(arguments.data, arguments.output)
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
        notes = read_notes(state) if state.exists() else {"epoch": 0, "step": 0}
        done = notes["epoch"] * max(1, arguments.steps // 20) + notes["step"]
        print(f"killed; {done} of {arguments.steps} steps are kept", flush=True)
    if start(arguments, "broken").wait():
        sys.exit("the run has failed")
    first, second = (
        (arguments.output / run / "model/model.safetensors").read_bytes() for run in ("unbroken", "broken")
    )
    same = "the same, bit for bit" if first == second else "NOT THE SAME"
    print(f"weights of the run that was killed twice and of the one that was not: {same}")
    sys.exit(first != second)


def start(arguments: argparse.Namespace, run: str) -> subprocess.Popen:
    command = [sys.executable, __file__, "learn", "--run", run, "--checkpoint-seconds", "1"]
    for name in ("data", "output", "steps", "learning_rate"):
        command += [f"--{name.replace('_', '-')}", str(getattr(arguments, name))]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["learn", "finetune", "kill"])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the folder for all that is made")
    parser.add_argument("--run", default="run", help="the folder in it for the state of a run, and its model")
    parser.add_argument("--steps", type=int, help="batches; default: 12,000, to `kill` 600")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="of `learn`")
    parser.add_argument("--checkpoint-seconds", type=float, default=60, help="of `learn`")
    parser.add_argument("--examples", type=int, default=10000, help="of `finetune`")
    parser.add_argument("--epochs", type=int, default=3, help="of `finetune`")
    parser.add_argument("--finetune-learning-rate", type=float, default=3e-4)
    parser.add_argument("--seeds", type=int, default=3, help="of `finetune`")
    arguments = parser.parse_args()
    arguments.steps = arguments.steps or (600 if arguments.what == "kill" else 12000)
    for needed in ("gutenberg", "brown/brown.zip", "sst2"):
        if not (arguments.data / needed).exists():
            sys.exit(f"there is no {arguments.data / needed}: say where the data is, --data DIR")
    {"learn": learn, "finetune": finetune, "kill": kill}[arguments.what](arguments)


if __name__ == "__main__":
    main()
