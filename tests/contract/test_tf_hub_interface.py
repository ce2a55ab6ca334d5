"""TF Hub's reusable SavedModel interface and its common APIs for text, held against our exports and TF Hub's own.

What is asked here is asked by TF Hub's two pages, "Reusable SavedModels" and "Common SavedModel APIs for Text Tasks".
Tests of what only ours have are at the end of each half.
"""

import numpy as np
import pytest
import tensorflow as tf

TEXTS = ["Unaffable you!", "", "The quick brown fox jumps over the lazy dog."]
CLS, SEP, MASK = 101, 102, 103
NAMES = {"input_word_ids", "input_mask", "input_type_ids"}


def rows(packed):
    """Each row of the packed inputs as its ids before the padding; checks what holds for every row on the way."""
    ids, mask, types = (packed[name].numpy() for name in ("input_word_ids", "input_mask", "input_type_ids"))
    lengths = mask.sum(axis=1)
    np.testing.assert_array_equal(mask, np.arange(ids.shape[1]) < lengths[:, None])
    assert not ids[mask == 0].any()
    assert not types[mask == 0].any()
    return [row[:length].tolist() for row, length in zip(ids, lengths, strict=True)]


# The preprocessor.


def test_strings_become_three_tensors(preprocessor):
    packed = preprocessor(tf.constant(TEXTS))
    assert set(packed) == NAMES
    for tensor in packed.values():
        assert (tensor.dtype, tensor.shape) == (tf.int32, (3, 128))
    assert rows(packed) == [
        [CLS, 14477, 20961, 3468, 2017, 999, SEP],
        [CLS, SEP],
        [CLS, 1996, 4248, 2829, 4419, 14523, 2058, 1996, 13971, 3899, 1012, SEP],
    ]


def test_an_empty_batch_of_strings(preprocessor):
    assert {name: tuple(tensor.shape) for name, tensor in preprocessor(tf.zeros([0], tf.string)).items()} == (
        dict.fromkeys(NAMES, (0, 128))
    )


def test_it_runs_in_an_input_pipeline(preprocessor):
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS).batch(2).map(preprocessor)
    assert {name: tuple(spec.shape) for name, spec in dataset.element_spec.items()} == dict.fromkeys(NAMES, (None, 128))
    assert [row for packed in dataset for row in rows(packed)] == rows(preprocessor(tf.constant(TEXTS)))


def test_the_named_callables_are_objects(preprocessor):
    """The interface has no place for bare functions: each callable may have variables of its own."""
    for name in ("tokenize", "bert_pack_inputs"):
        named = getattr(preprocessor, name)
        assert hasattr(named.__call__, "concrete_functions")
        assert not hasattr(named, "concrete_functions")


def test_tokenize(preprocessor):
    ids = preprocessor.tokenize(tf.constant(TEXTS))
    assert isinstance(ids, tf.RaggedTensor)
    assert (ids.dtype, ids.ragged_rank, ids.shape.as_list()) == (tf.int32, 2, [3, None, None])  # [batch, (words), (..)]
    assert ids.to_list()[:2] == [[[14477, 20961, 3468], [2017], [999]], []]
    assert [len(word) for word in ids.to_list()[2]] == [1] * 10
    assert preprocessor.tokenize(tf.zeros([0], tf.string)).to_list() == []


def test_special_tokens(preprocessor):
    tokens = preprocessor.tokenize.get_special_tokens_dict()
    assert {name: (token.dtype, token.shape, int(token)) for name, token in tokens.items()} == {
        "vocab_size": (tf.int32, (), 30522),
        "padding_id": (tf.int32, (), 0),
        "start_of_sequence_id": (tf.int32, (), CLS),
        "end_of_segment_id": (tf.int32, (), SEP),
        "mask_id": (tf.int32, (), MASK),
    }


FIRST, SECOND = [[1, 2, 3], [], [4]], [[5], [6, 7], []]


def segment(pieces, dimensions):
    """int32 `[batch, (pieces)]`, or `[batch, (words), (pieces)]` with two ragged dimensions."""
    ragged = tf.ragged.constant(pieces, tf.int32, ragged_rank=1, row_splits_dtype=tf.int64)
    if dimensions == 1:
        return ragged
    words = tf.RaggedTensor.from_row_lengths(ragged.values, tf.ones(tf.size(ragged.values), tf.int64))
    return ragged.with_values(words)


@pytest.mark.parametrize("dimensions", [1, 2])
@pytest.mark.parametrize("count", [1, 2])
def test_packing(preprocessor, dimensions, count):
    segments = [segment(pieces, dimensions) for pieces in (FIRST, SECOND)[:count]]
    packed = preprocessor.bert_pack_inputs(segments)
    assert set(packed) == NAMES
    for tensor in packed.values():
        assert (tensor.dtype, tensor.shape) == (tf.int32, (3, 128))  # 128 unless it is said otherwise
    second = [[*pieces, SEP] for pieces in SECOND] if count == 2 else [[]] * 3
    want = [[CLS, *a, SEP, *b] for a, b in zip(FIRST, second, strict=True)]
    assert rows(packed) == want
    ones = packed["input_type_ids"].numpy().sum(axis=1).tolist()
    assert ones == [len(pieces) for pieces in second]  # the second segment with its [SEP]; test_rows looks at padding
    for i, (a, b) in enumerate(zip(FIRST, second, strict=True)):
        start = len(a) + 2
        assert packed["input_type_ids"].numpy()[i, start : start + len(b)].all()


@pytest.mark.parametrize("seq_length", [3, 4, 7, 64, 512, 1000])
def test_packing_to_any_length(preprocessor, seq_length):
    for count in (1, 2) if seq_length > 3 else (1,):
        for length in (seq_length, tf.constant(seq_length)):
            segments = [segment(pieces, 2) for pieces in (FIRST, SECOND)[:count]]
            packed = preprocessor.bert_pack_inputs(segments, seq_length=length)
            assert {tuple(tensor.shape) for tensor in packed.values()} == {(3, seq_length)}


@pytest.mark.parametrize("dimensions", [1, 2])
def test_what_is_too_long_keeps_prefixes_of_about_equal_size(preprocessor, dimensions):
    sizes = [(20, 20), (20, 1), (1, 20), (0, 20), (12, 7), (3, 4), (20, 5)]
    first = [list(range(1000, 1000 + size)) for size, _ in sizes]
    second = [list(range(2000, 2000 + size)) for _, size in sizes]
    for seq_length in (4, 5, 12, 13, 20):
        packed = preprocessor.bert_pack_inputs([segment(each, dimensions) for each in (first, second)], seq_length)
        for a, b, row in zip(first, second, rows(packed), strict=True):
            kept_a, kept_b = ([piece for piece in row if piece // 1000 == thousand] for thousand in (1, 2))
            assert row == [CLS, *kept_a, SEP, *kept_b, SEP]
            assert (kept_a, kept_b) == (a[: len(kept_a)], b[: len(kept_b)])
            assert len(row) == min(seq_length, len(a) + len(b) + 3)  # it fits exactly, or is whole
            if kept_a != a:
                assert len(kept_b) <= len(kept_a) + 1
            if kept_b != b:
                assert len(kept_a) <= len(kept_b) + 1
    (row,) = rows(preprocessor.bert_pack_inputs([segment(first[:1], dimensions)], 10))
    assert row == [CLS, *first[0][:8], SEP]


def test_tokenize_then_pack_is_the_call(preprocessor):
    texts = tf.constant([*TEXTS, "words " * 200])
    packed = preprocessor.bert_pack_inputs([preprocessor.tokenize(texts)])
    for name, tensor in preprocessor(texts).items():
        np.testing.assert_array_equal(packed[name], tensor)


def test_three_segments_are_refused(preprocessor):
    with pytest.raises(ValueError, match="Could not find matching"):
        preprocessor.bert_pack_inputs([segment(FIRST, 1)] * 3)


def test_offsets(our_preprocessor):
    texts = ["Ünaffable you!", "", "日本 naïve", "a\u200bb"]
    ids, starts, ends = our_preprocessor.tokenize_with_offsets(tf.constant(texts))
    assert ids.to_list() == our_preprocessor.tokenize(tf.constant(texts)).to_list()
    assert (starts.dtype, ends.dtype, starts.ragged_rank, ends.ragged_rank) == (tf.int64, tf.int64, 2, 2)
    pieces = [
        [[text.encode()[a:b].decode() for a, b in zip(*word, strict=True)] for word in zip(*row, strict=True)]
        for text, row in zip(texts, zip(starts.to_list(), ends.to_list(), strict=True), strict=True)
    ]
    assert pieces == [[["Üna", "ffa", "ble"], ["you"], ["!"]], [], [["日"], ["本"], ["naïve"]], [["a\u200bb"]]]


def test_the_vocabulary_is_an_asset(our_preprocessor, exports):
    path = our_preprocessor.vocab_file.asset_path.numpy().decode()
    assert path == str(exports / "preprocessor/assets/vocab.txt")
    with open(path, encoding="utf-8") as file:
        pieces = file.read().splitlines()
    assert (len(pieces), pieces[0], pieces[CLS], pieces[SEP], pieces[14477]) == (
        30522,
        "[PAD]",
        "[CLS]",
        "[SEP]",
        "una",
    )


@pytest.mark.parametrize(("count", "seq_length"), [(1, 1), (2, 2), (1, 0)])
def test_no_room_for_the_special_tokens(our_preprocessor, count, seq_length):
    with pytest.raises(tf.errors.InvalidArgumentError, match="seq_length must leave room"):
        our_preprocessor.bert_pack_inputs([segment(FIRST, 1)] * count, seq_length)


# The encoder.


def inputs(batch=2, seq_length=9, seed=0):
    """Random pieces in two segments; each row after the first has one token less, then padding."""
    generator = np.random.default_rng(seed)
    lengths = np.maximum(seq_length - np.arange(batch), 1)[:, None]
    mask = np.arange(seq_length) < lengths
    ids = generator.integers(1000, 30000, (batch, seq_length))
    types = np.arange(seq_length) >= lengths // 2
    return {
        "input_word_ids": tf.constant(ids * mask, tf.int32),
        "input_mask": tf.constant(mask, tf.int32),
        "input_type_ids": tf.constant(types * mask, tf.int32),
    }


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(tf.nest.flatten(a), tf.nest.flatten(b), strict=True))


@pytest.mark.parametrize("training", [None, False, True])
@pytest.mark.parametrize(("batch", "seq_length"), [(2, 9), (1, 1), (0, 9), (3, 512), (17, 3)])
def test_outputs(encoder, batch, seq_length, training):
    arguments = {} if training is None else {"training": training}
    outputs = encoder(inputs(batch, seq_length), **arguments)
    assert set(outputs) == {"pooled_output", "sequence_output", "encoder_outputs", "default"}
    assert isinstance(outputs["encoder_outputs"], list)
    assert len(outputs["encoder_outputs"]) == 2
    for hidden in (outputs["sequence_output"], *outputs["encoder_outputs"]):
        assert (hidden.dtype, hidden.shape) == (tf.float32, (batch, seq_length, 128))
    for vector in (outputs["pooled_output"], outputs["default"]):
        assert (vector.dtype, vector.shape) == (tf.float32, (batch, 128))
    np.testing.assert_array_equal(outputs["encoder_outputs"][-1], outputs["sequence_output"])
    np.testing.assert_array_equal(outputs["default"], outputs["pooled_output"])
    assert all(np.isfinite(tensor).all() for tensor in tf.nest.flatten(outputs))


def test_static_shapes_are_known_to_the_surrounding_model(encoder):
    @tf.function(input_signature=[{name: tf.TensorSpec([None, None], tf.int32) for name in NAMES}])
    def outer(packed):
        return encoder(packed)

    outputs = outer.get_concrete_function().structured_outputs
    assert outputs["pooled_output"].shape.as_list() == [None, 128]
    assert outputs["sequence_output"].shape.as_list() == [None, None, 128]


def test_dropout_only_when_training(encoder):
    packed = inputs()
    quiet = encoder(packed)
    assert same(quiet, encoder(packed))
    assert same(quiet, encoder(packed, training=False))
    once, again = encoder(packed, training=True), encoder(packed, training=True)
    for name in ("pooled_output", "sequence_output"):
        assert np.abs(once[name] - quiet[name]).max() > 0.01
        assert np.abs(once[name] - again[name]).max() > 0.01


def test_dropout_draws_anew_in_each_call_of_a_step(encoder):
    packed = inputs()

    @tf.function
    def step():
        return [encoder(packed, training=True)["pooled_output"] for _ in range(2)]

    (first, second), (third, _) = step(), step()
    assert np.abs(first - second).max() > 0.01
    assert np.abs(first - third).max() > 0.01


def test_more_pieces_than_positions(encoder):
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
        encoder(inputs(1, 513))


def test_padding_and_neighbours_do_not_matter(encoder):
    packed = inputs()
    batch = encoder(packed)
    alone = encoder({name: tensor[1:, :8] for name, tensor in packed.items()})  # without its padding
    np.testing.assert_allclose(alone["sequence_output"], batch["sequence_output"][1:, :8], atol=1e-5)
    np.testing.assert_allclose(alone["pooled_output"], batch["pooled_output"][1:], atol=1e-5)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_input_matters(encoder, name):
    packed = inputs()
    changed = {**packed, name: 1 - packed[name]} if name != "input_word_ids" else {**packed, name: packed[name] + 1}
    assert np.abs(encoder(changed)["pooled_output"] - encoder(packed)["pooled_output"]).max() > 1e-4


def references(variables):
    return {variable.ref() for variable in variables}


def used_by(call):
    return references(variable for function in call.concrete_functions for variable in function.variables)


def test_variables(encoder):
    assert references(encoder.trainable_variables) <= references(encoder.variables)
    assert all(variable.trainable for variable in encoder.trainable_variables)
    assert len(encoder.variables) == len(references(encoder.variables))
    assert sum(int(tf.size(variable)) for variable in encoder.trainable_variables) == 4_385_920  # of a BERT-Tiny
    assert used_by(encoder.__call__)
    assert used_by(encoder.__call__) <= references(encoder.variables)


def test_regularization_losses(encoder):
    for loss in encoder.regularization_losses:
        assert (loss().dtype.is_floating, loss().shape) == (True, ())


def test_every_trainable_variable_gets_a_gradient(encoder):
    with tf.GradientTape() as tape:
        outputs = encoder(inputs(), training=True)
        loss = tf.reduce_sum(outputs["pooled_output"] ** 2) + tf.reduce_sum(outputs["sequence_output"] ** 3)
    for variable, gradient in zip(
        encoder.trainable_variables, tape.gradient(loss, encoder.trainable_variables), strict=True
    ):
        assert gradient is not None, variable.name
        assert np.isfinite(tf.convert_to_tensor(gradient)).all()
        if "key/bias" not in variable.name:  # it adds the same to all scores of a row, which softmax ignores
            assert np.any(tf.convert_to_tensor(gradient)), variable.name


def test_a_call_reads_the_listed_variables(encoder):
    packed = inputs()
    before = encoder(packed)["pooled_output"]
    bias = next(variable for variable in encoder.variables if "pooler" in variable.name and variable.shape.rank == 1)
    old = bias.numpy()
    bias.assign_add(tf.ones_like(bias))
    try:
        moved = encoder(packed)["pooled_output"]
        np.testing.assert_allclose(np.arctanh(moved) - np.arctanh(before), 1, atol=0.05)
    finally:
        bias.assign(old)


def mlm_inputs(positions):
    packed = inputs(len(positions))
    return {**packed, "masked_lm_positions": tf.constant(positions, tf.int32)}


@pytest.mark.parametrize("training", [None, False, True])
@pytest.mark.parametrize("positions", [[[1, 4, 4], [8, 0, 2]], [[5]], np.zeros((0, 4))])
def test_mlm(encoder, positions, training):
    arguments = {} if training is None else {"training": training}
    outputs = encoder.mlm(mlm_inputs(positions), **arguments)
    assert set(outputs) >= {"mlm_logits", "pooled_output", "sequence_output", "encoder_outputs"}
    assert outputs["mlm_logits"].dtype == tf.float32
    assert outputs["mlm_logits"].shape == (*np.shape(positions), 30522)


def test_mlm_predicts_at_the_positions(encoder):
    logits = encoder.mlm(mlm_inputs([list(range(9))] * 2))["mlm_logits"].numpy()  # everywhere
    picked = encoder.mlm(mlm_inputs([[1, 4, 4], [7, 0, 2]]))["mlm_logits"]
    for row, positions in enumerate([[1, 4, 4], [7, 0, 2]]):
        np.testing.assert_allclose(picked[row], logits[row, positions], atol=1e-4)
        assert np.abs(logits[row, 1] - logits[row, 4]).max() > 0.1


def test_mlm_gives_the_encoders_outputs_too(encoder):
    outputs, extended = encoder(inputs()), encoder.mlm(mlm_inputs([[1], [2]]))
    for name in ("pooled_output", "sequence_output", "encoder_outputs"):
        for a, b in zip(tf.nest.flatten(outputs[name]), tf.nest.flatten(extended[name]), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)


def test_mlm_dropout_only_when_training(encoder):
    packed = mlm_inputs([[1], [2]])
    quiet = encoder.mlm(packed)
    assert same(quiet, encoder.mlm(packed, training=False))
    assert np.abs(encoder.mlm(packed, training=True)["mlm_logits"] - quiet["mlm_logits"]).max() > 0.01


def test_the_heads_weights_are_outside_of_the_roots(encoder):
    head = references(encoder.mlm.variables) - references(encoder.variables)
    shapes = sorted(reference.deref().shape.as_list() for reference in head)
    assert shapes == [[128], [128], [128], [128, 128], [30522]]  # dense, its bias, gamma, beta, the pieces' biases
    assert head <= references(encoder.mlm.trainable_variables)
    assert references(encoder.trainable_variables) <= references(encoder.mlm.variables)
    assert used_by(encoder.mlm.__call__) <= references(encoder.mlm.variables)


def test_mlm_without_a_position(our_encoder):
    assert our_encoder.mlm(mlm_inputs(np.zeros((2, 0))))["mlm_logits"].shape == (2, 0, 30522)  # TF Hub's: (1, 0, ...)


def test_the_error_for_more_pieces_than_positions_says_so(our_encoder):
    packed = inputs(2, 600)
    for call, arguments in ((our_encoder, packed), (our_encoder.mlm, {**packed, "masked_lm_positions": [[0], [0]]})):
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"the model has 512 positions, but the sequence pieces:\] \[600"
        ):
            call(arguments)
