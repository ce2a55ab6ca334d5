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
import functools
import importlib.util
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from _measure import DATA, MINILM, Elsewhere, heading, options, parse, present, race, rate, run, table, text_files

from keras_bert import BertConfig

CONFIG = BertConfig.named("bert-small")
SHAPES = {128: (32, 20), 512: (8, 76)}  # length -> rows in a batch, masks in a row
Batches = dict[str, np.ndarray]  # each [batches, rows, ...]


def make_batches(files: list[Path], folder: Path, count: int, lengths: list[int]) -> None:
    from keras_bert import BertPreprocessor
    from keras_bert.pretraining import Records, write_records

    for length in lengths:
        rows, predictions = SHAPES[length]
        records = folder / f"records-{length}"
        preprocessor = BertPreprocessor.from_preset(MINILM, sequence_length=length)
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

    model = BertPretrainer(BertEncoder(CONFIG), BertPreprocessor.from_preset(MINILM))
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


def take_part(name: str, folder: str) -> Callable[[str], float]:
    """In a process of its own."""
    if importlib.util.find_spec(NEEDS[name]) is None:
        raise ImportError(f"{sys.executable} has no {NEEDS[name]}")
    train = CONTESTANTS[name]()

    def work(length: str) -> float:
        batches = read_batches(Path(folder), length)
        return rate(lambda: train(batches), batches["input_mask"].sum())

    return work


def rows_of(arguments: argparse.Namespace, files: list[Path]) -> Iterator[list[str]]:
    """Yields the rows of the table."""
    with tempfile.TemporaryDirectory() as folder:
        make_batches(files, Path(folder), arguments.batches, arguments.lengths)
        python = {name: arguments.garden if name == "garden" else sys.executable for name in CONTESTANTS}
        start = functools.partial(functools.partial, Elsewhere, "pretrain", "take_part")
        workers = present({name: start(name, folder, python=python[name]) for name in CONTESTANTS})
        for length in arguments.lengths:
            jobs = {name: functools.partial(work, str(length)) for name, work in workers.items()}
            padding = 1 - read_batches(Path(folder), str(length))["input_mask"].mean()
            batch = f"{SHAPES[length][0]} rows of {length}, {padding:.1%} padding"
            yield from ([batch, *row] for row in race(jobs, arguments.rounds, warm=not arguments.small))


def main() -> None:
    parser = options(__doc__, data=DATA / "gutenberg", garden=sys.executable, lengths=list(SHAPES), batches=4, rounds=5)
    arguments = parse(parser, batches=1, rounds=1, lengths=[128])
    files = text_files(arguments.data, arguments.small)
    SHAPES[128] = (2 if arguments.small else 32, 20)
    heading(["tensorflow", "keras", "torch", "transformers", "tf-models-official"])
    print(f"{arguments.batches} batches a round")
    table(("batch", "contestant", "tokens/s", "beside the best"), rows_of(arguments, files))


if __name__ == "__main__":
    run(main)
