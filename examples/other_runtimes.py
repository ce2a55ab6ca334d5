"""One classifier in three runtimes: fine-tuned here, exported, and run without TensorFlow. Needs the extra `runtimes`.

python examples/other_runtimes.py
"""

import os
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from keras_bert import BertClassifier
from keras_bert.runtimes import export_litert, export_onnx, export_openvino
from keras_bert.training import fine_tune

FOOD = ["I love pizza", "rice and beans", "fresh bread with butter", "a bowl of hot soup", "cheese and olives"]
WEATHER = ["it rains", "a cold wind", "the sun is shining", "snow on the hills", "thunder and lightning"]
NEW = ["bread and butter", "strong winds tonight"]


def encoded(directory: Path, texts: list[str]) -> dict[str, np.ndarray]:
    """Ids by TF Hub's names, by the tokenizer beside the export."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.enable_padding()
    rows = tokenizer.encode_batch(texts)
    return {
        "input_word_ids": np.array([row.ids for row in rows]),
        "input_mask": np.array([row.attention_mask for row in rows]),
        "input_type_ids": np.array([row.type_ids for row in rows]),
    }


def in_onnx_runtime(directory: Path, ids: dict[str, np.ndarray]) -> np.ndarray:
    import onnxruntime

    session = onnxruntime.InferenceSession(directory / "onnx/model.onnx")
    inputs = dict(zip(("input_ids", "attention_mask", "token_type_ids"), ids.values(), strict=True))
    return session.run(["probabilities"], inputs)[0]


def in_openvino(directory: Path, ids: dict[str, np.ndarray]) -> np.ndarray:
    import openvino

    model = openvino.compile_model(directory / "openvino/openvino_model.xml", "CPU")
    inputs = dict(zip(("input_ids", "attention_mask", "token_type_ids"), ids.values(), strict=True))
    return model(inputs)["probabilities"]


def in_litert(directory: Path, ids: dict[str, np.ndarray]) -> np.ndarray:
    from ai_edge_litert.interpreter import Interpreter

    run = Interpreter(str(directory / "model.tflite")).get_signature_runner()
    return run(**{name: values.astype(np.int32) for name, values in ids.items()})["probabilities"]


def main() -> None:
    model = BertClassifier.from_preset("all-MiniLM-L6-v2", labels=["food", "weather"])
    labels = ["food"] * len(FOOD) + ["weather"] * len(WEATHER)
    fine_tune(model, (FOOD + WEATHER, labels), epochs=4, batch_size=2, learning_rate=1e-4)
    print("Keras:", [answer["label"] for answer in model.classify(NEW)])
    exports = {
        "ONNX Runtime": (export_onnx, in_onnx_runtime),
        "OpenVINO": (export_openvino, in_openvino),
        "LiteRT": (export_litert, in_litert),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, (export, run) in exports.items():
            directory = Path(folder, name)
            export(model, directory, "int8")
            probabilities = run(directory, encoded(directory, NEW))
            print(f"{name}:", [model.labels[best] for best in probabilities.argmax(axis=-1)])


if __name__ == "__main__":
    main()
