"""Sequences a second of an encoder in bfloat16, on a GPU: this package on JAX, beside transformers on PyTorch.

KERAS_BACKEND=jax python benchmarks/gpu.py [--size bert-base] [--lengths 128 512] [--batch-tokens 16384] [--alone]

Inference and a training step, with the same shapes: rows without padding, and rows that are three quarters full.
PyTorch has `scaled_dot_product_attention`, once as it comes and once with `torch.compile`. No TensorFlow is needed.
Without a GPU it runs on the CPU, which only shows that it works: take `--small`.
"""

import argparse
import functools
import os
import statistics
from collections.abc import Callable, Iterator

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
from _measure import heading, interleave, parse, rate, ratios, run, table

from keras_bert import BertConfig, BertEncoder

PEERS = ["jax", "keras", "torch", "transformers"]
LEARNING_RATE = 1e-5

Step = Callable[[], object]  # enqueues a step on the device, and waits for it


def inputs(vocab_size: int, rows: int, length: int, full: float) -> tuple[np.ndarray, np.ndarray]:
    """Token ids and mask, int32 `[rows, length]`."""
    rng = np.random.default_rng(0)
    lengths = np.full(rows, length) if full == 1 else rng.integers(round((2 * full - 1) * length), length + 1, rows)
    mask = (np.arange(length) < lengths[:, None]).astype(np.int32)
    return rng.integers(5, vocab_size, (rows, length), dtype=np.int32) * mask, mask


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="bert-base")
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--batch-tokens", type=int, default=16384)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="in a round")
    parser.add_argument("--alone", action="store_true", help="without PyTorch")
    arguments = parse(parser, size="bert-tiny", lengths=[16], batch_tokens=64, rounds=1, steps=2, alone=True)
    import jax

    heading(PEERS)
    print(f"{jax.devices()[0].device_kind}, {arguments.size}")
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
                jobs = {}
                for name, steps in contestants.items():
                    step = steps[kind]
                    step(), step()

                    jobs[name] = functools.partial(sequences, step, arguments.steps, rows)
                rates = interleave(jobs, arguments.rounds)
                what = f"{kind}, {rows} rows of {length} tokens, {full:.0%} full"
                for name in jobs:
                    ratio = ratios(rates["keras_bert, JAX"], rates[name])
                    yield [what, name, f"{statistics.median(rates[name]):.1f}", ratio]


if __name__ == "__main__":
    run(main)
