"""Sequences a second of an encoder in bfloat16, on a GPU: this package on JAX, beside transformers on PyTorch.

KERAS_BACKEND=jax python benchmarks/gpu.py [--size bert-base] [--lengths 128 512] [--batch-tokens 16384] [--alone]
KERAS_BACKEND=jax python benchmarks/gpu.py --check [FAMILY ...]

Inference and a training step, with the same shapes: rows without padding, and rows that are three quarters full. There
are --steps in each of --rounds. With --alone, PyTorch is left out; else it has `scaled_dot_product_attention`, once as
it comes and once with `torch.compile`. With `--check`: how far hidden states and gradients are from those in float32 on
the CPU. Compiling takes most of the time: on an H100, 15 seconds for a line of the first table, 75 for one of the
second. No TensorFlow is needed. Without a GPU it runs on the CPU, which only shows that it works: take `--small`.
"""

import argparse
import contextlib
import functools
import os
import statistics
from collections.abc import Callable, Iterator

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
from _measure import heading, interleave, options, parse, rate, ratios, run, table

from keras_bert import BertConfig, BertEncoder

PEERS = ["jax", "keras", "torch", "transformers"]
LEARNING_RATE = 1e-5
# One size of each way to compute attention, positions and norms. Three layers: ModernBERT's third is global.
FAMILIES = (
    "bert-base", "albert-base", "mpnet-base", "deberta-v3-base", "modernbert-base", "nomic-bert-2048", "eurobert-610m",
    "neobert",
)  # fmt: skip
# Name -> Keras's dtype policy, and JAX's precision of products in float32: on GPUs, the default has 10 bits.
PRECISIONS = {
    "float32, highest": ("float32", "highest"),
    "float32": ("float32", None),
    "bfloat16": ("mixed_bfloat16", None),
    "float16": ("mixed_float16", None),
}

Step = Callable[[], object]  # enqueues a step on the device, and waits for it


def inputs(vocab_size: int, rows: int, length: int, full: float) -> tuple[np.ndarray, np.ndarray]:
    """Token ids and mask, int32 `[rows, length]`."""
    rng = np.random.default_rng(0)
    lengths = np.full(rows, length) if full == 1 else rng.integers(round((2 * full - 1) * length), length + 1, rows)
    mask = (np.arange(length) < lengths[:, None]).astype(np.int32)
    return rng.integers(5, vocab_size, (rows, length), dtype=np.int32) * mask, mask


def differences(size: str, layers: int, length: int) -> list[str]:
    """How far hidden states and gradients in each precision are from the CPU's: `|x - y| / |y|`, of both."""
    import jax

    settings = {"vocab_size": 500, "pad_token_id": 0, "max_positions": 512}
    config = BertConfig.named(size, num_layers=layers, hidden_dropout=0.0, attention_dropout=0.0, **settings)
    ids, mask = inputs(config.vocab_size, 4, length, 0.75)
    target = np.random.default_rng(1).normal(size=(*ids.shape, config.hidden_size)).astype("float32")
    weights = None

    def compute(policy: str, products: str | None, device: object) -> tuple[np.ndarray, np.ndarray]:
        nonlocal weights
        encoder = BertEncoder(config, dtype=policy)
        weights = weights or encoder.get_weights()
        trained, fixed, given = jax.device_put(
            (
                [each for each, variable in zip(weights, encoder.weights, strict=True) if variable.trainable],
                [each for each, variable in zip(weights, encoder.weights, strict=True) if not variable.trainable],
                {"input_word_ids": ids, "input_mask": mask},
            ),
            device,
        )

        def loss(trained):
            outputs, _ = encoder.stateless_call(trained, fixed, given, training=True)
            hidden = keras.ops.cast(outputs["sequence_output"], "float32") * mask[..., None]
            return keras.ops.sum(hidden * target) / ids.size, hidden  # a mean over all would vanish in float16

        with jax.default_matmul_precision(products) if products else contextlib.nullcontext():
            gradients, hidden = jax.jit(jax.grad(loss, has_aux=True))(trained)
        return np.asarray(hidden), np.concatenate([np.ravel(each) for each in gradients])

    exact = compute("float32", "highest", jax.devices("cpu")[0])
    cells = []
    for policy, products in PRECISIONS.values():
        found = compute(policy, products, jax.devices()[0])
        cells.append(
            ", ".join(f"{np.linalg.norm(x - y) / np.linalg.norm(y):.1e}" for x, y in zip(found, exact, strict=True))
        )
    return [size, *cells]


def ours(config: BertConfig, ids: np.ndarray, mask: np.ndarray) -> dict[str, Step]:
    """Both steps on JAX. The loss is the mean square of the last hidden states."""
    import jax

    encoder = BertEncoder(config, dtype="mixed_bfloat16")
    optimizer = keras.optimizers.AdamW(LEARNING_RATE)
    optimizer.build(encoder.trainable_variables)
    given = jax.device_put({"input_word_ids": ids, "input_mask": mask})
    trained, fixed = (
        [each.value for each in group] for group in (encoder.trainable_variables, encoder.non_trainable_variables)
    )

    @jax.jit
    def infer(trained):
        outputs, _ = encoder.stateless_call(trained, fixed, given, training=False)
        return outputs["sequence_output"]

    def loss(trained, fixed):
        outputs, fixed = encoder.stateless_call(trained, fixed, given, training=True)
        return keras.ops.mean(keras.ops.square(keras.ops.cast(outputs["sequence_output"], "float32"))), fixed

    @jax.jit
    def train(trained, fixed, state):
        (value, fixed), gradients = jax.value_and_grad(loss, has_aux=True)(trained, fixed)
        trained, state = optimizer.stateless_apply(state, gradients, trained)
        return value, trained, fixed, state

    now = [trained, fixed, [each.value for each in optimizer.variables]]

    def step():
        value, *now[:] = train(*now)
        return value.block_until_ready()

    return {"inference": lambda: infer(trained).block_until_ready(), "training step": step}


def theirs(config: BertConfig, ids: np.ndarray, mask: np.ndarray, is_compiled: bool) -> dict[str, Step]:
    """Both steps on PyTorch."""
    import torch
    from transformers import BertConfig as TheirConfig
    from transformers import BertModel

    device = "cuda" if torch.cuda.is_available() else "cpu"
    sizes = TheirConfig(
        vocab_size=config.vocab_size, hidden_size=config.hidden_size, num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads, intermediate_size=config.intermediate_size,
        max_position_embeddings=config.max_positions, attn_implementation="sdpa",
    )  # fmt: skip
    model = BertModel(sizes).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, fused=device == "cuda")
    given = {"input_ids": torch.tensor(ids, device=device).long(), "attention_mask": torch.tensor(mask, device=device)}
    forward = torch.compile(model) if is_compiled else model

    def wait():
        if device == "cuda":
            torch.cuda.synchronize()

    def infer():
        model.eval()
        with torch.no_grad(), torch.autocast(device, torch.bfloat16):
            forward(**given)
        wait()

    def train():
        model.train()
        with torch.autocast(device, torch.bfloat16):
            loss = forward(**given).last_hidden_state.float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        wait()

    return {"inference": infer, "training step": train}


def sequences(step: Step, steps: int, rows: int) -> float:
    """Sequences a second."""
    return rate(lambda: [step() for _ in range(steps)], steps * rows)


def main() -> None:
    numbers = {"lengths": [128, 512], "batch_tokens": 16384, "rounds": 5, "steps": 20}
    parser = options(__doc__, size="bert-base", **numbers, alone=False)
    parser.add_argument("--check", nargs="*", choices=FAMILIES, metavar="FAMILY", help="such as bert-base; none: all")
    arguments = parse(parser, size="bert-tiny", lengths=[16], batch_tokens=64, rounds=1, steps=2, alone=True)
    import jax

    heading(PEERS)
    print(f"{jax.devices()[0].device_kind}, {arguments.size}")
    if arguments.check is not None:
        layers, length = (1, 40) if arguments.small else (3, 300)
        rows = (differences(family, layers, length) for family in arguments.check or FAMILIES)
        return table((f"layers: {layers}", *PRECISIONS), rows)
    table(("step", "contestant", "sequences/s", "times as fast"), rows_of(arguments))


def rows_of(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yields the rows of the table."""
    config = BertConfig.named(arguments.size)
    for length in arguments.lengths:
        rows = max(1, arguments.batch_tokens // length)
        for full in (1.0, 0.75):
            given = inputs(config.vocab_size, rows, length, full)
            contestants = {"keras_bert, JAX": ours(config, *given)}
            for name, is_compiled in () if arguments.alone else (("PyTorch", False), ("PyTorch, compiled", True)):
                contestants[name] = theirs(config, *given, is_compiled=is_compiled)
            for kind in ("inference", "training step"):
                work = {name: functools.partial(sequences, steps[kind]) for name, steps in contestants.items()}
                for warm_up in work.values():
                    warm_up(2, rows)
                jobs = {name: functools.partial(each, arguments.steps, rows) for name, each in work.items()}
                rates = interleave(jobs, arguments.rounds)
                what = f"{kind}, {rows} rows of {length} tokens, {full:.0%} full"
                for name in jobs:
                    ratio = ratios(rates["keras_bert, JAX"], rates[name])
                    yield [what, name, f"{statistics.median(rates[name]):.1f}", ratio]


if __name__ == "__main__":
    run(main)
