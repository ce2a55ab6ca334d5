"""What OpenVINO's own frontend for TensorFlow reads of SavedModels, by family: the largest difference from TensorFlow.

python benchmarks/openvino_frontend.py [--only bert-base modernbert-base ...]

Each encoder has two layers of its published size, a vocabulary of 1,000 and random weights. `export encoder` writes it
with TF Hub's names, then with those of transformers, as `export serving` does, with a masked language model's head. The
three texts have 7 tokens, 5 and 2; padding is not compared.
"""

import tempfile

import numpy as np
from _measure import heading, options, parse, run, table

SIZES = ["bert-base", "distilbert-base", "electra-small", "roberta-base", "xlm-roberta-base", "albert-base"]
SIZES += ["mpnet-base", "deberta-v3-base", "nomic-bert-2048", "jina-embeddings-v3", "gte-large-en-v1.5"]
SIZES += ["modernbert-base", "neobert", "eurobert-210m"]
LENGTH, LENGTHS = 7, [[7], [5], [2]]
KINDS = {
    "ids": ("input_word_ids", "input_ids"),
    "mask": ("input_mask", "attention_mask"),
    "types": ("input_type_ids", "token_type_ids"),
}


def largest_difference(directory: str) -> float:
    """Runs a SavedModel in both, and compares all outputs."""
    import openvino
    import tensorflow as tf

    ids = np.random.default_rng(0).integers(5, 1000, (len(LENGTHS), LENGTH), np.int32)
    is_real = np.arange(LENGTH) < np.array(LENGTHS)
    values = {"ids": np.where(is_real, ids, 0), "mask": is_real.astype(np.int32), "types": np.zeros_like(ids)}
    inputs = {name: values[kind] for kind, names in KINDS.items() for name in names}
    signature = tf.saved_model.load(directory).signatures["serving_default"]
    used = {name: tf.constant(inputs[name]) for name in signature.structured_input_signature[1]}
    expected = {name: each.numpy() for name, each in signature(**used).items()}
    model = openvino.compile_model(openvino.convert_model(directory), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = model({each: inputs[next(name for name in inputs if name in each.get_names())] for each in model.inputs})
    outputs = {name: found[each] for each in model.outputs for name in each.get_names() if name in expected}
    if outputs.keys() != expected.keys():
        raise ValueError(f"OpenVINO has {sorted(outputs)} of {sorted(expected)}")
    of_tokens = {name: each.ndim == 3 for name, each in expected.items()}
    differences = [np.abs(outputs[name] - expected[name])[is_real if of_tokens[name] else ...] for name in expected]
    return max(float(each.max()) for each in differences)


def main() -> None:
    arguments = parse(options(__doc__, only=SIZES), only=SIZES[:1])
    from keras_bert import BertConfig, BertEncoder, BertMaskedLM
    from keras_bert.saved_model import export_encoder, export_serving

    heading(["tensorflow", "openvino"])
    rows = []
    for size in arguments.only:
        changes = {"num_layers": 2, "vocab_size": 1000, "pad_token_id": 0, "initializer_range": 0.1}
        encoder = BertEncoder(BertConfig(**BertConfig.named(size).to_dict() | changes))
        with tempfile.TemporaryDirectory() as folder:
            export_encoder(encoder, f"{folder}/hub")
            export_encoder(encoder, f"{folder}/ids", signature="transformers")
            export_serving(BertMaskedLM(encoder), f"{folder}/head", signature="transformers")
            paths = (f"{folder}/{name}" for name in ("hub", "ids", "head/1"))
            rows.append([size, *(f"{largest_difference(path):.1e}" for path in paths)])
    ids = "--signature transformers"
    table(["two layers of", "export encoder", f"export encoder {ids}", f"export serving {ids}"], rows)


if __name__ == "__main__":
    run(main)
