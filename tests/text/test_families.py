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

TEXTS = ["hello world", "a", "the quick brown fox 2010, jumps over", "cafe\u0301  [unused0]", *SENTENCES]


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
def test_graphs_have_no_operation_that_reads_outside_its_memory(any_tokenizer):
    """Those that TensorFlow Text checks only since 2.21.1; see SECURITY.md."""
    detokenize = tf.function(any_tokenizer.detokenize, input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)])
    operations = set()
    for function in (any_tokenizer._ids_and_offsets, detokenize):
        graph = function.get_concrete_function().graph.as_graph_def()
        nodes = [graph.node, *(each.node_def for each in graph.library.function)]
        operations |= {node.op.lower() for each in nodes for node in each}
    mended = ("detokenize", "fastbertnormalize", "fastsentencepiece", "phrase", "rouge")
    assert [each for each in operations if any(name in each for name in mended)] == []
    assert len(operations) > 10
    for ids in ([[-1]], [[any_tokenizer.vocabulary_size]], [[2**31 - 1, -(2**31)]]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="outside the vocabulary"):
            detokenize(tf.ragged.constant(ids, tf.int32))


@pytest.mark.slow
def test_exports_give_the_same_without_this_package(merges, albert, tmp_path, request):
    """Byte pairs with added tokens and two separators, as in RoBERTa's pairs. For WordPiece, see tests/saved_model."""
    byte_pairs = small.modern_byte_pairs(merges, separators=2)
    preprocessors = [BertPreprocessor(each, sequence_length=24) for each in (byte_pairs, albert)]
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
    tokens = model.tokenize(texts)
    packed = [model(texts), model.bert_pack_inputs([tokens, model.tokenize(texts[::-1])], seq_length=24)]
    packed = [{name: value.numpy().tolist() for name, value in each.items()} for each in packed]
    offsets = [each.merge_dims(1, 2).to_list() for each in model.tokenize_with_offsets(texts)]
    print(json.dumps([*packed, tokens.merge_dims(1, 2).to_list(), offsets]))
    assert model(tf.zeros([0], tf.string))["input_word_ids"].shape == (0, 24)
    try:
        model.tokenize(tf.constant([b"fine", b"\\xff"]))
    except tf.errors.InvalidArgumentError as error:
        assert "not valid UTF-8" in str(error) and "[1]" in str(error)
    else:
        raise AssertionError("bytes that are not UTF-8 were taken")
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", code, "0", "1"]
    lines = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True).stdout.splitlines()
    request.getfixturevalue("untraced")  # from here on
    for preprocessor, line in zip(preprocessors, lines, strict=True):
        tokens = preprocessor.tokenizer.tokenize(TEXTS).to_list()
        offsets = [ragged.to_list() for ragged in preprocessor.tokenizer.tokenize_with_offsets(TEXTS)]
        pairs = values(preprocessor((TEXTS, TEXTS[::-1])))
        assert json.loads(line) == [values(preprocessor(TEXTS)), pairs, tokens, offsets]


def test_no_texts_and_an_empty_text(any_tokenizer, untraced):
    preprocessor = BertPreprocessor(any_tokenizer, sequence_length=24)
    for empty in ([], tf.zeros([0], tf.string)):
        assert preprocessor(empty)["input_word_ids"].shape == (0, 24)
        assert any_tokenizer.tokenize_with_offsets(empty)[1].shape == (0, None)
    assert values(preprocessor(""))["input_mask"] == [1, 1] + [0] * 22
    assert [ids.numpy().tolist() for ids in any_tokenizer.tokenize_with_offsets("")] == [[], [], []]


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


def test_presets_need_not_say_which_tokenizer(any_tokenizer, tmp_path, untraced):
    preprocessor = BertPreprocessor(any_tokenizer)
    preprocessor.save_preset(tmp_path)
    config = BertConfig.tiny(vocab_size=any_tokenizer.vocabulary_size, max_positions=40)
    write_config(tmp_path / "config.json", config)  # of BERT: the preprocessor reads its sizes alone
    again = BertPreprocessor.from_preset(tmp_path)
    assert type(again.tokenizer) is type(any_tokenizer)
    assert again.tokenizer.get_config() == any_tokenizer.get_config()
    assert again.max_sequence_length == again.sequence_length == 40


def test_bert_with_another_tokenizer(xlm_model, xlm_roberta, tmp_path, untraced):
    """As multilingual-e5-small: a BERT with XLM-RoBERTa's tokenizer, and rows of the embedding table left."""
    (tmp_path / xlm_model.name).write_bytes(xlm_model.read_bytes())
    rows = xlm_roberta.vocabulary_size + 35
    write_config(tmp_path / "config.json", BertConfig.tiny(vocab_size=rows, max_positions=24))
    preprocessor = BertPreprocessor.from_preset(tmp_path)
    assert values(preprocessor(TEXTS)) == values(BertPreprocessor(xlm_roberta, sequence_length=24)(TEXTS))
