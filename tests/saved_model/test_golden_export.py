"""The exports in saved_models/tiny-bert, which an earlier version of the package wrote: their numbers and their format.

When a test of the format fails, people's programs on top of exports may fail too. If the change is meant, make the
files anew (tests/golden/make_golden_export.py) and say in CHANGELOG.md what their owners have to do.
"""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  the operations

from ..golden import make_golden_export as golden

EXPECTED = np.load(golden.HERE / "tiny-bert-export.npz")
TEXTS = tf.constant(EXPECTED["texts"])
REAL = EXPECTED["input_word_ids"] != 0
PACKED = {
    "input_word_ids": tf.constant(EXPECTED["input_word_ids"]),
    "input_mask": tf.constant(REAL, tf.int32),
    "input_type_ids": tf.zeros(REAL.shape, tf.int32),
}


@pytest.fixture(scope="module", params=["committed", "exported"])
def find(request):
    """A part -> the directory of its SavedModel."""
    return request.getfixturevalue(request.param)


def close(got, want):
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)


def test_preprocessor(find, loaded):
    preprocessor = loaded(find("preprocessor"))
    for name, want in PACKED.items():
        np.testing.assert_array_equal(preprocessor(TEXTS)[name], want)
    ids = preprocessor.tokenize(TEXTS).merge_dims(1, 2).to_list()
    for tokens, row in zip(ids, EXPECTED["input_word_ids"], strict=True):
        row = row[row != 0]
        assert tokens[: len(row) - 2] == row[1:-1].tolist()
    path = Path(preprocessor.vocab_file.asset_path.numpy().decode())
    assert path.read_text("utf-8").splitlines() == golden.VOCABULARY


def test_encoder(find, loaded):
    encoder = loaded(find("encoder"))
    outputs = encoder(PACKED)
    close(outputs["pooled_output"], EXPECTED["pooled_output"])
    for got, want in zip(outputs["encoder_outputs"], EXPECTED["encoder_outputs"], strict=True):
        close(got.numpy()[REAL], want[REAL])
    predicted = encoder.mlm({**PACKED, "masked_lm_positions": tf.constant(EXPECTED["positions"])})
    close(predicted["mlm_logits"], EXPECTED["mlm_logits"])


def test_serving(find, loaded):
    pytest.importorskip("tensorflow_serving")
    signature = loaded(find("serving")).signatures["serving_default"]
    close(signature(text=TEXTS)["embedding"], EXPECTED["embedding"])


def plain(spec):
    if isinstance(spec, dict):
        return {name: plain(part) for name, part in sorted(spec.items())}
    if isinstance(spec, list | tuple):
        return [plain(part) for part in spec]
    return f"{spec.dtype.name} {spec.shape}" if isinstance(spec, tf.TensorSpec) else repr(spec)


def interface(directory, model):
    """Everything that a program can hold on to: files, signatures, callables, variables."""

    def callables(part):
        functions = {"__call__": part.__call__}
        if hasattr(part, "get_special_tokens_dict"):
            functions["get_special_tokens_dict"] = part.get_special_tokens_dict
        return {
            name: sorted(
                repr((plain(each.structured_input_signature), plain(each.structured_outputs)))
                for each in function.concrete_functions
            )
            for name, function in functions.items()
        }

    parts = {"": model} | {name: getattr(model, name) for name in NAMED if hasattr(model, name)}
    return {
        "files": sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()),
        "signatures": {
            name: (plain(signature.structured_input_signature), plain(signature.structured_outputs))
            for name, signature in sorted(model.signatures.items())
        },
        "callables": {name: callables(part) for name, part in parts.items()},
        **{
            f"{kind} of {name}": [(each.name, each.shape.as_list(), each.dtype.name) for each in getattr(part, kind)]
            for name, part in parts.items()
            for kind in ("variables", "trainable_variables")
            if hasattr(part, kind)
        },
    }


NAMED = ("mlm", "tokenize", "tokenize_with_offsets", "bert_pack_inputs")


@pytest.mark.parametrize("part", golden.PARTS)
def test_the_format_is_the_same(committed, exported, loaded, part):
    old, new = (interface(find(part), loaded(find(part))) for find in (committed, exported))
    if part == "serving":  # Keras numbers the encoders of a process
        for each in (old, new):
            each["variables of "] = [(name.split("/", 1)[1], *rest) for name, *rest in each["variables of "]]
        new["signatures"] = {name: new["signatures"][name] for name in old["signatures"]}  # there may be more
        new["files"] = [each for each in new["files"] if "extra/keras_bert/" not in each]  # of new ones alone
    assert old.keys() == new.keys()
    for name, value in old.items():
        assert new[name] == value, name
