"""TF Hub's reusable SavedModel interface and its common API for text preprocessors: our exports, and TF Hub's own.

What is asked here is asked by TF Hub's two pages, "Reusable SavedModels" and "Common SavedModel APIs for Text Tasks".
Tests of what only ours have are at the end.
"""

import numpy as np
import pytest
import tensorflow as tf

TEXTS = ["The plotless film!", "", "a very good Story of love and hate, is it not?"]
TOKENS = [
    ["the", "plot", "##less", "film", "!"],
    [],
    ["a", "very", "good", "story", "of", "love", "and", "hate", ",", "is", "it", "not", "?"],
]
NAMES = {"input_word_ids", "input_mask", "input_type_ids"}


def rows(packed):
    """Each row of the packed inputs as its ids before the padding; checks what holds for every row on the way."""
    ids, mask, types = (packed[name].numpy() for name in ("input_word_ids", "input_mask", "input_type_ids"))
    lengths = mask.sum(axis=1)
    np.testing.assert_array_equal(mask, np.arange(ids.shape[1]) < lengths[:, None])
    assert not ids[mask == 0].any()
    assert not types[mask == 0].any()
    return [row[:length].tolist() for row, length in zip(ids, lengths, strict=True)]


def framed(models, *segments):
    """[CLS] a [SEP] b [SEP], of ids."""
    (cls,), sep = models.ids("[CLS]"), models.ids("[SEP]")
    return [cls, *(each for segment in segments for each in [*segment, *sep])]


def test_strings_become_three_tensors(models, preprocessor):
    packed = preprocessor(tf.constant(TEXTS))
    assert set(packed) == NAMES
    for tensor in packed.values():
        assert (tensor.dtype, tensor.shape) == (tf.int32, (3, models.length))
    assert rows(packed) == [framed(models, models.ids(*tokens)) for tokens in TOKENS]
    assert {name: tuple(tensor.shape) for name, tensor in preprocessor(tf.zeros([0], tf.string)).items()} == (
        dict.fromkeys(NAMES, (0, models.length))
    )


def test_it_runs_in_an_input_pipeline(models, preprocessor):
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS).batch(2).map(preprocessor)
    shapes = {name: tuple(spec.shape) for name, spec in dataset.element_spec.items()}
    assert shapes == dict.fromkeys(NAMES, (None, models.length))
    assert [row for packed in dataset for row in rows(packed)] == rows(preprocessor(tf.constant(TEXTS)))


def test_the_named_callables_are_objects(preprocessor):
    """The interface has no place for bare functions: each callable may have variables of its own."""
    for name in ("tokenize", "bert_pack_inputs"):
        named = getattr(preprocessor, name)
        assert hasattr(named.__call__, "concrete_functions")
        assert not hasattr(named, "concrete_functions")


def test_tokenize(models, preprocessor):
    ids = preprocessor.tokenize(tf.constant(TEXTS))
    assert isinstance(ids, tf.RaggedTensor)
    assert (ids.dtype, ids.ragged_rank, ids.shape.as_list()) == (tf.int32, 2, [3, None, None])  # [batch, (words), (..)]
    the, plot, less, film, end = models.ids(*TOKENS[0])
    assert ids.to_list() == [[[the], [plot, less], [film], [end]], [], [[each] for each in models.ids(*TOKENS[2])]]
    assert preprocessor.tokenize(tf.zeros([0], tf.string)).to_list() == []


def test_special_tokens(models, preprocessor):
    tokens = preprocessor.tokenize.get_special_tokens_dict()
    names = ("padding_id", "start_of_sequence_id", "end_of_segment_id", "mask_id")
    ids = dict(zip(names, models.ids("[PAD]", "[CLS]", "[SEP]", "[MASK]"), strict=True))
    assert {name: (token.dtype, token.shape, int(token)) for name, token in tokens.items()} == {
        name: (tf.int32, (), value) for name, value in {**ids, "vocab_size": len(models.vocabulary)}.items()
    }


FIRST, SECOND = [[1, 2, 3], [], [4]], [[5], [6, 7], []]


def segment(tokens, dimensions):
    """int32 `[batch, (tokens)]`, or `[batch, (words), (tokens)]` with two ragged dimensions."""
    ragged = tf.ragged.constant(tokens, tf.int32, ragged_rank=1, row_splits_dtype=tf.int64)
    if dimensions == 1:
        return ragged
    words = tf.RaggedTensor.from_row_lengths(ragged.values, tf.ones(tf.size(ragged.values), tf.int64))
    return ragged.with_values(words)


@pytest.mark.parametrize("dimensions", [1, 2])
@pytest.mark.parametrize("count", [1, 2])
def test_packing(models, preprocessor, dimensions, count):
    segments = [segment(tokens, dimensions) for tokens in (FIRST, SECOND)[:count]]
    packed = preprocessor.bert_pack_inputs(segments)
    assert set(packed) == NAMES
    for tensor in packed.values():
        assert (tensor.dtype, tensor.shape) == (tf.int32, (3, 128))  # 128 unless it is said otherwise
    assert rows(packed) == [framed(models, *pair) for pair in zip(*(FIRST, SECOND)[:count], strict=True)]
    types = packed["input_type_ids"].numpy()
    for row, first, second in zip(types, FIRST, SECOND, strict=True):
        start, length = len(first) + 2, len(second) + 1 if count == 2 else 0  # the second segment with its [SEP]
        assert row.nonzero()[0].tolist() == [*range(start, start + length)]


@pytest.mark.parametrize("seq_length", [3, 4, pytest.param(1000, marks=pytest.mark.slow)])
def test_packing_to_any_length(preprocessor, seq_length):
    for count in (1, 2) if seq_length > 3 else (1,):
        for length in (seq_length, tf.constant(seq_length)):
            segments = [segment(tokens, 2) for tokens in (FIRST, SECOND)[:count]]
            packed = preprocessor.bert_pack_inputs(segments, seq_length=length)
            assert {tuple(tensor.shape) for tensor in packed.values()} == {(3, seq_length)}


@pytest.mark.parametrize("dimensions", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_what_is_too_long_keeps_prefixes_of_about_equal_size(models, preprocessor, dimensions):
    sizes = [(20, 20), (20, 1), (1, 20), (0, 20), (12, 7), (3, 4), (20, 5)]
    first = [list(range(1000, 1000 + size)) for size, _ in sizes]
    second = [list(range(2000, 2000 + size)) for _, size in sizes]
    for seq_length in (4, 5, 12, 13, 20):
        packed = preprocessor.bert_pack_inputs([segment(each, dimensions) for each in (first, second)], seq_length)
        for a, b, row in zip(first, second, rows(packed), strict=True):
            kept_a, kept_b = ([token for token in row if token // 1000 == thousand] for thousand in (1, 2))
            assert row == framed(models, kept_a, kept_b)
            assert (kept_a, kept_b) == (a[: len(kept_a)], b[: len(kept_b)])
            assert len(row) == min(seq_length, len(a) + len(b) + 3)  # it fits exactly, or is whole
            if kept_a != a:
                assert len(kept_b) <= len(kept_a) + 1
            if kept_b != b:
                assert len(kept_a) <= len(kept_b) + 1
    (row,) = rows(preprocessor.bert_pack_inputs([segment(first[:1], dimensions)], 10))
    assert row == framed(models, first[0][:8])


def test_tokenize_then_pack_is_the_call(models, preprocessor):
    texts = tf.constant([*TEXTS, "words " * 200])
    packed = preprocessor.bert_pack_inputs([preprocessor.tokenize(texts)], models.length)
    for name, tensor in preprocessor(texts).items():
        np.testing.assert_array_equal(packed[name], tensor)


def test_three_segments_are_refused(preprocessor):
    with pytest.raises(ValueError, match="Could not find matching"):
        preprocessor.bert_pack_inputs([segment(FIRST, 1)] * 3)


def test_offsets(our_preprocessor):
    texts = ["Dullness\u0301 you!", "", "日本 naïve", "a\u200bn"]
    ids, starts, ends = our_preprocessor.tokenize_with_offsets(tf.constant(texts))
    assert ids.to_list() == our_preprocessor.tokenize(tf.constant(texts)).to_list()
    assert (starts.dtype, ends.dtype, starts.ragged_rank, ends.ragged_rank) == (tf.int64, tf.int64, 2, 2)
    tokens = [
        [[text.encode()[a:b].decode() for a, b in zip(*word, strict=True)] for word in zip(*row, strict=True)]
        for text, row in zip(texts, zip(starts.to_list(), ends.to_list(), strict=True), strict=True)
    ]
    naive = [["日"], ["本"], ["n", "a", "ïve"]]
    assert tokens == [[["Dull", "ness\u0301"], ["you"], ["!"]], [], naive, [["a\u200bn"]]]


def test_the_vocabulary_is_an_asset(ours, our_preprocessor):
    path = our_preprocessor.vocab_file.asset_path.numpy().decode()
    assert path == str(ours.find("preprocessor") / "assets/vocab.txt")
    with open(path, encoding="utf-8") as file:
        assert file.read().splitlines() == ours.vocabulary


@pytest.mark.parametrize(("count", "seq_length"), [(1, 1), (2, 2), (1, 0)])
def test_no_room_for_the_special_tokens(our_preprocessor, count, seq_length):
    with pytest.raises(tf.errors.InvalidArgumentError, match="seq_length must leave room"):
        our_preprocessor.bert_pack_inputs([segment(FIRST, 1)] * count, seq_length)
