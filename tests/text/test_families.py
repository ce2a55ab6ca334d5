"""BertPreprocessor with each kind of tokenizer: pairs, .keras files, SavedModels, presets that name no tokenizer."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertConfig, BertPreprocessor
from keras_bert.formats import write_config
from keras_bert.saved_model import export_preprocessor
from keras_bert.text import BytePairTokenizer, SentencePieceTokenizer, WordPieceTokenizer

from ..support import small
from ..support.messages import error_names
from ..support.texts import SENTENCES

TEXTS = ["hello world", "a", "the quick brown fox 2010, jumps over", *SENTENCES]


def values(outputs):
    return {name: np.asarray(tensor).tolist() for name, tensor in outputs.items()}


def test_pairs(any_tokenizer, untraced):
    preprocessor = BertPreprocessor(any_tokenizer, sequence_length=None)
    packed = values(preprocessor((["a"], ["hello"])))
    a, b = (any_tokenizer.tokenize(text).numpy().tolist() for text in ("a", "hello"))
    cls, sep = any_tokenizer.cls_token_id, any_tokenizer.sep_token_id
    if isinstance(any_tokenizer, BytePairTokenizer):
        want = [cls, *a, sep, sep, *b, sep]
        types = [0] * len(want)
    else:
        want = [cls, *a, sep, *b, sep]
        types = [0] * (2 + len(a)) + [1] * (len(b) + 1)
    assert packed == {"input_word_ids": [want], "input_mask": [[1] * len(want)], "input_type_ids": [types]}
    long = tf.ragged.constant([[*range(5, 25)], [5]]), tf.ragged.constant([[6], [*range(5, 25)]])
    rows = values(BertPreprocessor(any_tokenizer, sequence_length=16).pack(long))
    assert {name: [len(row) for row in each] for name, each in rows.items()} == {name: [16, 16] for name in rows}
    assert {row.count(sep) for row in rows["input_word_ids"]} == {any_tokenizer.pair_format.special_tokens(2) - 1}
    for length in (len(want), len(want) - 1):
        strict = BertPreprocessor(any_tokenizer, sequence_length=length, truncation="error")
        with error_names(ValueError, "truncation", "error") if length < len(want) else nullcontext():
            strict.pack(([a], [b]))


@pytest.mark.slow
def test_every_way_of_running_gives_the_same(any_tokenizer, tmp_path):
    preprocessor = BertPreprocessor(any_tokenizer, sequence_length=24)
    want = values(preprocessor(TEXTS))
    assert values(tf.function(preprocessor)(tf.constant(TEXTS))) == want
    rows = tf.data.Dataset.from_tensor_slices(TEXTS)
    assert values(next(iter(rows.batch(len(TEXTS)).map(preprocessor)))) == want
    assert values(next(iter(rows.map(preprocessor).batch(len(TEXTS))))) == want
    for empty in ([], tf.zeros([0], tf.string)):
        assert preprocessor(empty)["input_word_ids"].shape == (0, 24)
        assert any_tokenizer.tokenize_with_offsets(empty)[1].shape == (0, None)
    assert values(preprocessor(""))["input_mask"] == [1, 1] + [0] * 22
    assert [ids.numpy().tolist() for ids in any_tokenizer.tokenize_with_offsets("")] == [[], [], []]

    inputs = keras.Input((), dtype="string")
    keras.Model(inputs, preprocessor(inputs)).save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert values(again(tf.constant(TEXTS))) == want


@pytest.mark.slow
def test_exports_give_the_same_without_this_package(tokenizer, byte_pairs, albert, tmp_path):
    preprocessors = [BertPreprocessor(each, sequence_length=24) for each in (tokenizer, byte_pairs, albert)]
    for number, preprocessor in enumerate(preprocessors):
        export_preprocessor(preprocessor, tmp_path / f"exported/{number}")
    (tmp_path / "exported").rename(tmp_path / "moved")
    (tmp_path / "texts.json").write_text(json.dumps(TEXTS))
    code = """
import json, sys
sys.modules["keras_bert"] = None  # whoever serves the model does not have it
import tensorflow as tf, tensorflow_text
texts = tf.constant(json.load(open("texts.json")))
for number in sys.argv[1:]:
    model = tf.saved_model.load(f"moved/{number}")
    packed = {name: value.numpy().tolist() for name, value in model(texts).items()}
    offsets = [each.merge_dims(1, 2).to_list() for each in model.tokenize_with_offsets(texts)]
    print(json.dumps([packed, model.tokenize(texts).merge_dims(1, 2).to_list(), offsets]))
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", code, "0", "1", "2"]
    lines = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True).stdout.splitlines()
    for preprocessor, line in zip(preprocessors, lines, strict=True):
        tokens = preprocessor.tokenizer.tokenize(TEXTS).to_list()
        offsets = [ragged.to_list() for ragged in preprocessor.tokenizer.tokenize_with_offsets(TEXTS)]
        assert json.loads(line) == [values(preprocessor(TEXTS)), tokens, offsets]


def test_config_round_trip(merges, albert_model, untraced):
    words = [*small.SPECIAL, "a", "##b", "中", "<unk>"]
    for tokenizer in (
        WordPieceTokenizer(words, lowercase=False, split_on_cjk=False, unk_token="<unk>"),
        small.byte_pairs(merges[:20], add_prefix_space=True, special_tokens_in_text=True),
        SentencePieceTokenizer(albert_model, lowercase=False, special_tokens_in_text=True),
    ):
        config = keras.saving.serialize_keras_object(tokenizer)
        again = keras.saving.deserialize_keras_object(json.loads(json.dumps(config)))
        assert again.get_config() == tokenizer.get_config()
        texts = [*SENTENCES, "a [MASK]", "the <mask> ther", "ab中 xyz"]
        assert again.tokenize(texts).to_list() == tokenizer.tokenize(texts).to_list()


def _write_config(directory, vocabulary_size):
    """Of BERT: whose positions and sizes they are does not matter to the preprocessor."""
    sizes = {"vocab_size": vocabulary_size, "hidden_size": 8, "num_layers": 1, "num_heads": 1, "intermediate_size": 8}
    write_config(directory / "config.json", BertConfig(**sizes, max_positions=40))


def test_presets_need_not_say_which_tokenizer(any_tokenizer, tmp_path, untraced):
    preprocessor = BertPreprocessor(any_tokenizer)
    preprocessor.save_preset(tmp_path)
    _write_config(tmp_path, any_tokenizer.vocabulary_size)
    again = BertPreprocessor.from_preset(tmp_path)
    assert type(again.tokenizer) is type(any_tokenizer)
    assert again.tokenizer.get_config() == any_tokenizer.get_config()
    assert again.max_sequence_length == again.sequence_length == 40


@pytest.mark.slow
def test_presets_with_tokenizer_json_alone(shared_data, tmp_path):
    path = shared_data / "vocabs/roberta_tokenizer.json"
    (tmp_path / "tokenizer.json").write_bytes(path.read_bytes())
    _write_config(tmp_path, 50265)
    preprocessor = BertPreprocessor.from_preset(tmp_path, sequence_length=8)
    assert isinstance(preprocessor.tokenizer, BytePairTokenizer)
    assert values(preprocessor(["Hello world!"]))["input_word_ids"] == [[0, 31414, 232, 328, 2, 1, 1, 1]]


@pytest.mark.parity
def test_pairs_as_hugging_face(any_tokenizer, tmp_path):
    transformers = pytest.importorskip("transformers")
    any_tokenizer.save_preset(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    packed = BertPreprocessor(any_tokenizer, sequence_length=40)((["hello world"], ["so it is"]))
    want = theirs(["hello world"], ["so it is"], padding="max_length", max_length=40, return_token_type_ids=True)
    names = {"input_word_ids": "input_ids", "input_mask": "attention_mask", "input_type_ids": "token_type_ids"}
    for ours, name in names.items():
        assert packed[ours].numpy().tolist() == want[name], ours


@pytest.mark.slow
def test_exported_pairs_are_packed_as_the_model_does(tmp_path):
    """RoBERTa's pairs have two separators, also when another process packs them."""
    tokenizer = small.byte_pairs([])
    preprocessor = BertPreprocessor(tokenizer, sequence_length=9)
    export_preprocessor(preprocessor, tmp_path / "exported")
    exported = tf.saved_model.load(tmp_path / "exported")
    pair = tf.constant(["abc", "x"]), tf.constant(["defg", ""])
    packed = exported.bert_pack_inputs([exported.tokenize(text) for text in pair], seq_length=9)
    for name, expected in preprocessor(pair).items():
        np.testing.assert_array_equal(packed[name], expected, err_msg=name)
    a, x, bos, eos, pad = (tokenizer.vocabulary.index(token) for token in ("a", "x", "<s>", "</s>", "<pad>"))
    assert packed["input_word_ids"].numpy()[1].tolist() == [bos, x, eos, eos, eos, pad, pad, pad, pad]
    assert packed["input_word_ids"].numpy()[0, :2].tolist() == [bos, a]


def test_bert_with_another_tokenizer(xlm_model, xlm_roberta, tmp_path, untraced):
    """As multilingual-e5-small: a BERT with XLM-RoBERTa's tokenizer, and rows of the embedding table left."""
    (tmp_path / xlm_model.name).write_bytes(xlm_model.read_bytes())
    rows = xlm_roberta.vocabulary_size + 35
    write_config(tmp_path / "config.json", BertConfig.tiny(vocab_size=rows, max_positions=24))
    preprocessor = BertPreprocessor.from_preset(tmp_path)
    assert values(preprocessor(TEXTS)) == values(BertPreprocessor(xlm_roberta, sequence_length=24)(TEXTS))
