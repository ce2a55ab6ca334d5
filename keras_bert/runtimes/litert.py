"""LiteRT (TensorFlow Lite): exports with Keras's exporter and TensorFlow's converter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert.engines.runtime import Run

if TYPE_CHECKING:
    import numpy as np

    from keras_bert.runtimes.export import PackedModel


def convert(packed: PackedModel, path: Path, float16: bool = False, int8: bool = False) -> None:
    import tensorflow as tf

    from keras_bert.runtimes.litert_metadata import add_metadata

    target: dict[str, list] = {"supported_ops": [tf.lite.OpsSet.TFLITE_BUILTINS]}
    settings: dict[str, Any] = {"optimizations": [tf.lite.Optimize.DEFAULT]} if float16 or int8 else {}
    if float16:
        target["supported_types"] = [tf.float16]
    shape = (None, None) if packed.length is None else (1, packed.length)
    signature = packed.signature(shape)
    packed.export(str(path), format="litert", input_signature=signature, verbose=False, target_spec=target, **settings)
    add_metadata(path, packed)


def open(path: Path, threads: int | None = None) -> Run:
    import numpy as np  # the table of runtimes, which --help reads, does without it

    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:  # use the same class from TensorFlow
        import tensorflow as tf

        Interpreter = tf.lite.Interpreter  # noqa: N806
    run = Interpreter(str(path), num_threads=threads).get_signature_runner()
    rows = next(iter(run.get_input_details().values()))["shape_signature"][0]

    def run_all(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        inputs = {name: np.asarray(each, np.int32) for name, each in inputs.items()}
        if rows < 0:
            return run(**inputs)
        count = len(next(iter(inputs.values())))
        outputs = [run(**{name: each[i : i + 1] for name, each in inputs.items()}) for i in range(count)]
        return {name: np.concatenate([each[name] for each in outputs]) for name in outputs[0]}

    return run_all
