"""Pre-training steps: real tokens, not padding, a second, beside transformers and TF Model Garden.

python benchmarks/pretrain.py [--garden PYTHON] [--batches 4] [--rounds 5]

BERT-Small (4 layers, 512 wide), masks and next sentence, AdamW with clipping: forward, backward and update, float32.
Batches are made once, by `write_records` from the books of ../shared/data/gutenberg beside the repository, or of
--data; all train on the same: 32 rows of 128 tokens with up to 20 masks, 8 rows of 512 with up to 76. One row in ten is
shorter, as in the paper, so there is padding; it is not counted. keras_bert: `BertPretrainer` under Keras's `fit`, as
`pretrain` compiles it. transformers: `BertForPreTraining`, labels at the masked positions. Model Garden: its task
`MaskedLMTask`, with the encoder, the heads and the optimizer that it builds. Each has a process of its own; Model
Garden pins another TensorFlow, so it is looked for in --garden, the Python of another environment, if that is given.
"""

import argparse
import importlib.util
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
from _measure import DATA, Elsewhere, MissingError, answer_calls, heading, interleave, parse, rate, ratios, run, table

from keras_bert import BertConfig

PEERS = ["tensorflow", "keras", "torch", "transformers", "tf-models-official"]
PRESET = "all-MiniLM-L6-v2"  # for its vocabulary, BERT's
CONFIG = BertConfig.named("bert-small")
SHAPES = {128: (32, 20), 512: (8, 76)}  # length -> rows in a batch, masks in a row
Batches = dict[str, np.ndarray]  # each [batches, rows, ...]


def make_batches(files: list[Path], folder: Path, count: int, lengths: list[int]) -> None:
    from keras_bert import BertPreprocessor
    from keras_bert.pretraining import Records, write_records

    for length in lengths:
        rows, predictions = SHAPES[length]
        records = folder / f"records-{length}"
        preprocessor = BertPreprocessor.from_preset(PRESET, sequence_length=length)
        write_records(files, records, preprocessor, predictions=predictions)
        batches = list(Records(records).shuffled(rows, seed=0).take(count).as_numpy_iterator())
        np.savez(folder / f"{length}.npz", **{name: np.stack([each[name] for each in batches]) for name in batches[0]})


def read_batches(folder: Path, length: str) -> Batches:
    with np.load(folder / f"{length}.npz") as file:
        return dict(file)


# -- The contestants: each gives what trains on all batches once.


def keras_bert() -> Callable[[Batches], None]:
    import keras
    import tensorflow as tf

    from keras_bert import BertEncoder, BertPreprocessor
    from keras_bert.pretraining import BertPretrainer
    from keras_bert.training import AdamW, WarmupThenDecay, distribution

    model = BertPretrainer(BertEncoder(CONFIG), BertPreprocessor.from_preset(PRESET))
    optimizer = AdamW(WarmupThenDecay(1e-4, 10, 10**6), epsilon=1e-6, global_clipnorm=1.0)
    model.compile(optimizer, model.training_loss(), weighted_metrics=model.training_metrics(), jit_compile=False)

    def train(batches: Batches) -> None:
        inputs = dict(batches)
        targets = {"masked_lm": inputs.pop("masked_lm_ids"), "next_sentence": inputs.pop("next_sentence_labels")}
        follows = np.ones(targets["next_sentence"].shape, np.float32)
        weights = {"masked_lm": inputs.pop("masked_lm_weights"), "next_sentence": follows}
        dataset = tf.data.Dataset.from_tensor_slices((inputs, targets, weights)).prefetch(4)
        dataset = dataset.with_options(distribution.DATA_OPTIONS)  # as `pretrain` does
        keras.Model.fit(model, dataset, verbose=0, shuffle=False)

    return train


def transformers() -> Callable[[Batches], None]:
    import torch
    import transformers
    from _finetune_theirs import adamw

    from keras_bert.formats.hugging_face import values_of

    model = transformers.BertForPreTraining(transformers.BertConfig(**values_of(CONFIG))).train()
    optimizer = adamw(model, 1e-4, eps=1e-6)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, 10, 10**6)

    def train(batches: Batches) -> None:
        batches = {name: torch.from_numpy(values).long() for name, values in batches.items()}
        for i in range(len(batches["input_word_ids"])):
            batch = {name: values[i] for name, values in batches.items()}
            labels = torch.full_like(batch["input_word_ids"], -100)
            rows, masks = torch.nonzero(batch["masked_lm_weights"], as_tuple=True)
            labels[rows, batch["masked_lm_positions"][rows, masks]] = batch["masked_lm_ids"][rows, masks]
            outputs = model(
                input_ids=batch["input_word_ids"], attention_mask=batch["input_mask"],
                token_type_ids=batch["input_type_ids"], labels=labels,
                next_sentence_label=batch["next_sentence_labels"],
            )  # fmt: skip
            outputs.loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()

    return train


def garden() -> Callable[[Batches], None]:
    import tensorflow as tf
    from official.modeling import optimization
    from official.nlp.configs import bert, encoders
    from official.nlp.data import pretrain_dataloader
    from official.nlp.tasks import masked_lm

    encoder = encoders.BertEncoderConfig(
        hidden_size=CONFIG.hidden_size, num_layers=CONFIG.num_layers, num_attention_heads=CONFIG.num_heads,
        intermediate_size=CONFIG.intermediate_size,
    )  # fmt: skip
    head = bert.ClsHeadConfig(inner_dim=CONFIG.hidden_size, dropout_rate=0.1, name="next_sentence")
    config = masked_lm.MaskedLMConfig(
        model=bert.PretrainerConfig(encoder=encoders.EncoderConfig(bert=encoder), cls_heads=[head]),
        train_data=pretrain_dataloader.BertPretrainDataConfig(),
    )
    settings = {
        "optimizer": {
            "type": "adamw",
            "adamw": {
                "weight_decay_rate": 0.01,
                "exclude_from_weight_decay": ["LayerNorm", "layer_norm", "bias"],
                "epsilon": 1e-6,
                "gradient_clip_norm": 1.0,
            },
        },
        "learning_rate": {"type": "polynomial", "polynomial": {"initial_learning_rate": 1e-4, "decay_steps": 10**6}},
        "warmup": {"type": "polynomial", "polynomial": {"warmup_steps": 10}},
    }
    factory = optimization.OptimizerFactory(optimization.OptimizationConfig(settings))
    optimizer = factory.build_optimizer(factory.build_learning_rate())
    task = masked_lm.MaskedLMTask(config)
    model, metrics = task.build_model(), task.build_metrics(training=True)

    @tf.function
    def steps(dataset):  # as its Trainer: a loop inside of the graph; AutoGraph cannot read an annotation here
        for batch in dataset:
            task.train_step(batch, model, optimizer, metrics)

    def train(batches: Batches) -> None:
        batches = {**batches, "next_sentence_labels": batches["next_sentence_labels"][..., None]}
        steps(tf.data.Dataset.from_tensor_slices(batches).prefetch(4))

    return train


CONTESTANTS = {"keras_bert": keras_bert, "transformers": transformers, "garden": garden}
NEEDS = {"keras_bert": "keras", "transformers": "torch", "garden": "official"}


def take_part(name: str, folder: Path) -> None:
    def make() -> Callable[[str], float]:
        if importlib.util.find_spec(NEEDS[name]) is None:
            raise ImportError(f"{sys.executable} has no {NEEDS[name]}")
        train = CONTESTANTS[name]()

        def work(length: str) -> float:
            batches = read_batches(folder, length)
            return rate(lambda: train(batches), batches["input_mask"].sum())

        return work

    answer_calls(make)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA / "gutenberg", help="a folder of .txt files")
    parser.add_argument("--garden", default=sys.executable, help="a Python that has tf-models-official")
    parser.add_argument("--lengths", type=int, nargs="+", choices=SHAPES, default=list(SHAPES), help="of rows")
    parser.add_argument("--batches", type=int, default=4, help="batches per round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--contestant", nargs=2, metavar=("NAME", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parse(parser, batches=1, rounds=1, lengths=[128])
    if arguments.contestant:
        take_part(arguments.contestant[0], Path(arguments.contestant[1]))
        return
    files = sorted(arguments.data.glob("*.txt"))
    if not files:
        raise MissingError(f"there are no .txt files in {arguments.data}: say where texts are, --data FOLDER")
    if arguments.small:
        files = [min(files, key=os.path.getsize)]
    heading(PEERS)
    print(f"{arguments.batches} batches a round")
    table(("batch", "contestant", "tokens/s", "beside the best"), rows_of(arguments, files))


def rows_of(arguments: argparse.Namespace, files: list[Path]) -> Iterator[list[str]]:
    """Yields the rows of the table."""
    workers = {}
    with tempfile.TemporaryDirectory() as folder:
        make_batches(files, Path(folder), arguments.batches, arguments.lengths)
        for name in CONTESTANTS:
            python = arguments.garden if name == "garden" else sys.executable
            try:
                workers[name] = Elsewhere([python, __file__, "--contestant", name, folder])
            except MissingError as error:
                print(f"without {name}: {error}", file=sys.stderr)
        for length in arguments.lengths:
            rows, _ = SHAPES[length]
            batches = read_batches(Path(folder), str(length))
            jobs = {name: lambda work=work, length=length: work(str(length)) for name, work in workers.items()}
            for job in jobs.values():  # once, so that all graphs are there
                job()
            rates = interleave(jobs, arguments.rounds)
            best = max(jobs, key=lambda name: statistics.median(rates[name]))
            padding = 1 - batches["input_mask"].mean()
            batch = f"{rows} rows of {length}, {padding:.1%} padding"
            for name in jobs:
                yield [batch, name, f"{statistics.median(rates[name]):,.0f}", ratios(rates[name], rates[best])]


if __name__ == "__main__":
    run(main)
