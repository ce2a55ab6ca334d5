"""LiteRT (TensorFlow Lite): exports with Keras's exporter and TensorFlow's converter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert.engines.runtime import Run
from keras_bert.extras import needing_tensorflow_text
from keras_bert.runtime_table import RUNTIMES

if TYPE_CHECKING:
    import numpy as np

    from keras_bert.encoder import BertEncoder
    from keras_bert.runtimes.comparison import Difference
    from keras_bert.runtimes.export import PackedModel
    from keras_bert.tasks.base.task import BertTask
    from keras_bert.text import BertPreprocessor


def export_litert(
    model: BertTask | BertEncoder,
    directory: str | Path,
    precision: str = "float32",
    overwrite: bool = False,
    preprocessor: BertPreprocessor | None = None,
    sequence_length: int | None = None,
) -> list[Difference]:
    """Writes `directory/model.tflite` for LiteRT, on phones and in browsers, with its tokenizer and a README.

    The model has only LiteRT's own operations, and needs no Flex delegate. The inputs are int32 under TF Hub's names.
    The outputs are the float32 outputs of the model's `serve_packed`. Logits are left out if there are probabilities,
    and hidden states if there are vectors. The other files are those of `export_onnx`.

    If the model has a WordPiece vocabulary and segments, the file includes metadata, vocabulary and labels for
    MediaPipe's TextClassifier and TextEmbedder. For these, use an uncased model and a fixed `sequence_length`: they
    lower-case texts and read rows of one length.

    Args:
        model, directory, precision, overwrite, preprocessor: see `export_onnx`, also for errors.
        sequence_length: makes the inputs `[1, sequence_length]`, which is faster, and which phones' accelerators need.
            By default, the inputs are `[batch, seq_length]` of any size.

    Returns:
        The difference of each output from Keras's output, on a few sentences.

    Example:
        >>> import tempfile
        >>> from keras_bert import BertSentenceEncoder
        >>> model = BertSentenceEncoder.from_preset("all-MiniLM-L6-v2")
        >>> [each.output for each in export_litert(model, tempfile.mkdtemp(), sequence_length=64)]
        ['embedding']
    """
    with needing_tensorflow_text("export_litert"):
        from keras_bert.runtimes.export import encoder_of, write
    if sequence_length is not None:
        positions = encoder_of(model).config.max_positions
        if not 3 <= sequence_length <= positions:
            raise ValueError(f"sequence_length is {sequence_length}; expected 3 to {positions}, the model's positions")
    return write(RUNTIMES["litert"], model, directory, precision, overwrite, preprocessor, sequence_length)


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
