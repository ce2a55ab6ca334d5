"""Writes transformers4.tar.xz: small models of transformers 4 with TensorFlow, and the outputs that it computes.

To run in an environment of its own (transformers 4.46, tensorflow, tf_keras), as transformers 5 has no TensorFlow:

    TF_USE_LEGACY_KERAS=1 python tests/golden/make_transformers4.py DIRECTORY

DIRECTORY gets a directory a model. The archive holds them all, but only one model in each of the other layouts.
"""

import sys
import tarfile
import zlib
from pathlib import Path

import numpy as np
import tensorflow as tf
import transformers

SIZES = {
    **{"vocab_size": 60, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16},
    **{"max_position_embeddings": 20, "type_vocab_size": 2},
}
ROBERTA = {**SIZES, "type_vocab_size": 1, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
DEBERTA = {
    **SIZES,
    **{"type_vocab_size": 0, "layer_norm_eps": 1e-7, "relative_attention": True, "position_buckets": 4},
    **{"share_att_key": True, "norm_rel_ebd": "layer_norm", "pos_att_type": "p2c|c2p", "position_biased_input": False},
}
# Name -> prefix of the classes, and the configuration.
FAMILIES = {
    "bert": ("Bert", SIZES),
    "roberta": ("Roberta", ROBERTA),
    "xlm-roberta": ("XLMRoberta", ROBERTA),
    "camembert": ("Camembert", ROBERTA),
    "distilbert": (
        "DistilBert",
        {"vocab_size": 60, "dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 16, "max_position_embeddings": 20},
    ),
    "albert": ("Albert", {**SIZES, "embedding_size": 6}),
    "albert-2-groups": ("Albert", {**SIZES, "embedding_size": 6, "num_hidden_layers": 4, "num_hidden_groups": 2}),
    "electra": ("Electra", {**SIZES, "embedding_size": 6}),
    "mpnet": ("MPNet", {name: value for name, value in ROBERTA.items() if name != "type_vocab_size"}),
    "deberta-v3": ("DebertaV2", DEBERTA),
}
# Name -> ending of the class, and number of labels.
HEADS = {
    "encoder": ("Model", 2),
    "masked_lm": ("ForMaskedLM", 2),
    "pretraining": ("ForPreTraining", 2),
    "next_sentence": ("ForNextSentencePrediction", 2),
    "sequence": ("ForSequenceClassification", 3),
    "tokens": ("ForTokenClassification", 5),
    "spans": ("ForQuestionAnswering", 2),
    "choices": ("ForMultipleChoice", 2),
}
# Ending of a directory's name -> models that are written in another layout, and settings of `save_pretrained`.
LAYOUTS = {
    "sharded": (["bert-sequence", "deberta-v3-sequence"], {"max_shard_size": "6KB"}),
    "safetensors": (
        ["bert-sequence", "roberta-masked_lm", "distilbert-tokens", "albert-spans", "electra-encoder"],
        {"safe_serialization": True},
    ),
    "saved-model": (
        ["bert-encoder", "bert-sequence", "bert-spans", "bert-pretraining", "roberta-encoder", "distilbert-sequence"],
        {"saved_model": True},
    ),
}
IN_ARCHIVE = {"bert-sequence-sharded", "bert-sequence-safetensors", "bert-encoder-saved-model"}


def random_value(name, shape):
    """The same value in every model of a family, in 64ths: with few digits, files are small when compressed."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    value = np.round(generator.normal(0, 0.3, shape) * 64) / 64
    return (value + ("gamma" in name)).astype(np.float32)


def inputs(model, head):
    generator = np.random.default_rng(0)
    shape = (2, 3, 12) if head == "choices" else (2, 12)
    mask = np.ones(shape, np.int32)
    mask[1, ..., 8:] = 0
    pad = model.config.pad_token_id
    values = {
        "input_ids": np.where(mask == 1, generator.integers(5, 60, shape), pad).astype(np.int32),
        "attention_mask": mask,
    }
    if getattr(model.config, "type_vocab_size", 0) == 2:
        values["token_type_ids"] = np.broadcast_to(np.arange(12) >= 5, shape).astype(np.int32) * mask
    return values


def make(prefix, settings, head):
    """A model with random weights, or None if the library has no such class."""
    ending, labels = HEADS[head]
    if not hasattr(transformers, f"TF{prefix}{ending}"):
        return None
    config = getattr(transformers, f"{prefix}Config")(**settings, num_labels=labels)
    model = getattr(transformers, f"TF{prefix}{ending}")(config)
    model(inputs(model, head))
    for weight in model.weights:
        weight.assign(random_value(weight.name.partition("/")[2], weight.shape))
    return model


def write(directory, model, head, settings):
    model.save_pretrained(directory, **settings)
    if "saved_model" in settings:
        (directory / "tf_model.h5").unlink()
    given = inputs(model, head)
    outputs = {name: value for name, value in model(given).items() if tf.is_tensor(value)}
    np.savez(
        directory / "outputs.npz",
        **{f"in_{name}": value for name, value in given.items()},
        **{f"out_{name}": value.numpy() for name, value in outputs.items()},
    )


def main(root):
    for family, (prefix, settings) in FAMILIES.items():
        for head in HEADS:
            tf.keras.backend.clear_session()  # otherwise, the second model of a class is tf_bert_model_1
            model = make(prefix, settings, head)
            if model is None:
                continue
            name = f"{family}-{head}"
            print(name, flush=True)
            write(root / name, model, head, {})
            for ending, (models, options) in LAYOUTS.items():
                if name in models:
                    write(root / f"{name}-{ending}", model, head, options)
    # What a program wrote that had made two models before.
    model = make(*FAMILIES["bert"], "sequence")
    write(root / "bert-sequence-second", make(*FAMILIES["bert"], "sequence"), "sequence", {})


def plain(item):
    """An item of the archive without its owner and time; None to leave it out."""
    model = item.name.split("/")[0]
    if model.endswith(tuple(LAYOUTS)) and model not in IN_ARCHIVE:
        return None
    item.uid = item.gid = item.mtime = 0
    item.uname = item.gname = ""
    return item


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    main(directory)
    with tarfile.open(Path(__file__).with_name("transformers4.tar.xz"), "w:xz", preset=9) as archive:
        for path in sorted(directory.iterdir()):
            archive.add(path, path.name, filter=plain)
