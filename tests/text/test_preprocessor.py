"""BertPreprocessor as a Keras layer: forms of input, lengths, saving, other backends."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertConfig, BertPreprocessor
from keras_bert.formats import Preset, write_config
from keras_bert.text.arrays.preprocessor import ArrayPreprocessor

from ..support import small
from ..support.messages import error_names

TEXTS = ["film time", "a", "the film was not good and it is dull"]


@pytest.fixture
def preprocessor():
    return small.preprocessor(sequence_length=8)


def values(outputs):
    return {name: np.asarray(tensor).tolist() for name, tensor in outputs.items()}


def test_forms_of_input(preprocessor):
    want = values(preprocessor(TEXTS))
    assert [len(row) for row in want["input_word_ids"]] == [8, 8, 8]
    for texts in (np.array(TEXTS), np.array(TEXTS, dtype=object), tf.constant(TEXTS), [*map(str.encode, TEXTS)]):
        assert values(preprocessor(texts)) == want
    one = values(preprocessor("film time"))
    assert one == {name: rows[0] for name, rows in want.items()}
    assert values(preprocessor(tf.constant("film time"))) == one
    assert values(tf.function(preprocessor)(tf.constant(TEXTS))) == want


def test_a_tuple_is_a_pair_and_a_list_a_batch(preprocessor, tokenizer, untraced):
    batch = preprocessor(["film", "time"])
    assert batch["input_word_ids"].shape == (2, 8)
    pair = values(preprocessor((["film"], ["time"])))
    film, time = (tokenizer.vocabulary.index(word) for word in ("film", "time"))
    assert pair["input_word_ids"] == [[2, film, 3, time, 3, 0, 0, 0]]
    assert pair["input_type_ids"] == [[0, 0, 0, 1, 1, 0, 0, 0]]
    assert values(preprocessor(("film", "time"))) == {name: rows[0] for name, rows in pair.items()}
    film, time = tf.constant(["film"]), tf.constant(["time"])
    for texts in ([film, time], (film, ["time"]), (np.array(["film"]), np.array(["time"]))):
        assert values(preprocessor(texts)) == pair


def test_pack(preprocessor, tokenizer, untraced):
    want = values(preprocessor((TEXTS, TEXTS)))
    ids = tokenizer.tokenize(TEXTS)
    for segments in ((ids, ids), [ids, ids], (ids.to_list(), ids.to_list()), (tf.cast(ids, tf.int64), ids)):
        assert values(preprocessor.pack(segments)) == want
    assert values(preprocessor.pack(ids.to_list())) == values(preprocessor(TEXTS)) == values(preprocessor.pack([ids]))
    assert values(preprocessor.pack([[], [7]]))["input_mask"] == [[1, 1, *[0] * 6], [1, 1, 1, *[0] * 5]]


@pytest.mark.parametrize(
    ("name", "entries", "kept"),
    [
        ("config.json", {}, (3, 4)),
        ("bert_config.json", {}, (4, 3)),
        ("config.json", {"class_name": "keras_hub>BertBackbone", "config": {}}, (4, 3)),
    ],
    ids=["Hugging Face", "Google", "KerasHub"],
)
def test_a_pair_is_cut_as_the_library_of_the_format_cuts(name, entries, kept, tmp_path, monkeypatch, untraced):
    """A room of 7: `tokenizers` and Google's code differ about the odd place; `test_packing.py` compares with both."""
    write_config(tmp_path / name, dataclasses.replace(small.CONFIG, activation="relu"))
    if entries:
        (tmp_path / name).write_text(json.dumps(entries))
        monkeypatch.setattr(Preset, "config", small.CONFIG)
    small.tokenizer().save_preset(tmp_path)
    for kind in (BertPreprocessor, ArrayPreprocessor):
        pair = values(kind.from_preset(tmp_path, sequence_length=10)((["a b c d e"], ["a b c d e"])))
        assert (10 - 1 - sum(pair["input_type_ids"][0]) - 1, sum(pair["input_type_ids"][0]) - 1) == kept
        pair = values(kind.from_preset(tmp_path, sequence_length=10, truncation="waterfall")((["a " * 6], ["b b"])))
        assert sum(pair["input_type_ids"][0]) - 1 == 1


def test_longest_of_the_batch(tokenizer, untraced):
    def shape(texts, **options):
        preprocessor = BertPreprocessor(tokenizer, sequence_length=None, **options)
        return tuple(preprocessor(texts)["input_word_ids"].shape)

    assert shape(TEXTS) == (3, 11)
    assert shape(TEXTS, pad_to_multiple_of=8) == (3, 16)
    assert shape(["a"], pad_to_multiple_of=8) == (1, 8)
    assert shape((TEXTS, TEXTS), pad_to_multiple_of=4) == (3, 24)
    # The model has positions for 13: neither text nor rounding goes past them.
    assert shape(TEXTS, pad_to_multiple_of=8, max_sequence_length=13) == (3, 13)
    assert shape([TEXTS[2] * 9], max_sequence_length=13) == (1, 13)
    assert shape([]) == (0, 3)
    assert shape(["film " * 600]) == (1, 512)


def test_in_tf_data(preprocessor):
    rows = tf.data.Dataset.from_tensor_slices(TEXTS)
    want = values(preprocessor(TEXTS))
    batches = rows.batch(3, drop_remainder=True).map(preprocessor)
    assert {name: tuple(spec.shape) for name, spec in batches.element_spec.items()} == dict.fromkeys(want, (3, 8))
    assert values(next(iter(batches))) == want
    assert values(next(iter(rows.map(preprocessor).batch(3)))) == want


def _model(preprocessor):
    inputs = [keras.Input((), dtype="string", name=name) for name in ("first", "second")]
    packed = preprocessor(inputs)
    assert packed["input_word_ids"].shape == (None, 8)
    return keras.Model(inputs, packed)


def test_functional_models_saved_and_cloned(preprocessor, tmp_path, untraced):
    model, inputs = _model(preprocessor), [tf.constant(TEXTS)] * 2
    want = values(preprocessor(tuple(inputs)))
    model.save(tmp_path / "model.keras")
    for again in (model, keras.models.load_model(tmp_path / "model.keras"), keras.models.clone_model(model)):
        assert values(again(inputs)) == want


@pytest.mark.slow
def test_functional_models_predicting_and_exported(preprocessor, tmp_path):
    model, inputs = _model(preprocessor), [tf.constant(TEXTS)] * 2
    want = values(preprocessor(tuple(inputs)))
    assert values(model.predict(inputs, verbose=0)) == want
    model.export(tmp_path / "served", verbose=False)
    assert values(tf.saved_model.load(str(tmp_path / "served")).serve(inputs)) == want


def test_config_round_trip(tokenizer, untraced):
    options = {"sequence_length": None, "truncation": "waterfall", "pad_to_multiple_of": 8, "max_sequence_length": 64}
    preprocessor = BertPreprocessor(tokenizer, name="words", **options)
    again = BertPreprocessor.from_config(preprocessor.get_config())
    assert again.get_config() == preprocessor.get_config()
    assert {**preprocessor.get_config(), **options} == preprocessor.get_config()
    assert values(again(TEXTS)) == values(preprocessor(TEXTS))


def test_presets(small_preset, tokenizer, tmp_path, untraced):
    preprocessor = BertPreprocessor.from_preset(small_preset)
    assert (preprocessor.sequence_length, preprocessor.max_sequence_length) == (48, 48)
    assert BertPreprocessor.from_preset(small_preset, sequence_length=None).sequence_length is None
    with error_names(ValueError, "sequence_length is 49", 48):
        BertPreprocessor.from_preset(small_preset, sequence_length=49)
    preprocessor.save_preset(tmp_path)
    with error_names(FileNotFoundError, tmp_path, "no config.json"):
        BertPreprocessor.from_preset(tmp_path)
    changes = {"vocab_size": tokenizer.vocabulary_size, "max_positions": 400}
    write_config(tmp_path / "config.json", BertConfig.tiny(**changes))
    again = BertPreprocessor.from_preset(tmp_path)
    assert (again.sequence_length, again.max_sequence_length) == (128, 400)
    assert again.tokenizer.get_config() == preprocessor.tokenizer.get_config() == tokenizer.get_config()
    with error_names(FileExistsError, tmp_path, "overwrite"):
        preprocessor.save_preset(tmp_path)
    size = tokenizer.vocabulary_size
    write_config(tmp_path / "config.json", BertConfig.tiny(vocab_size=size + 1))
    with error_names(ValueError, "vocabulary", f"{size} tokens", f"{size + 1} rows"):
        BertPreprocessor.from_preset(tmp_path)


@pytest.mark.parametrize("family", ["bert", "electra", "albert"])
def test_google_s_names_of_a_configuration(tokenizer, family, tmp_path):
    tokenizer.save_preset(tmp_path)
    sizes = {"vocab_size": tokenizer.vocabulary_size, "max_positions": 40}
    write_config(tmp_path / f"{family}_config.json", BertConfig.tiny(family=family, activation="relu", **sizes))
    assert BertPreprocessor.from_preset(tmp_path).max_sequence_length == 40
