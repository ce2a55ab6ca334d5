"""BertMaskedLM against numpy; `fill`, the surest mask first, by hand; texts as they were; files."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertPreprocessor
from keras_bert.saved_model import export_serving
from keras_bert.tasks import BertMaskedLM
from keras_bert.tasks.masked_lm import GraphTokenTexts, fill_masks, token_texts
from keras_bert.text import WordPieceTokenizer

from ..golden import make_golden_export as golden
from ..support import small
from ..support.messages import error_names, warning_names


@pytest.fixture(scope="module")
def model(small_preset):
    return BertMaskedLM.from_preset(small_preset)


@pytest.fixture(scope="module")
def inputs():
    packed = small.preprocessor(sequence_length=golden.SEQUENCE_LENGTH)(small.TEXTS)
    return {**packed, "masked_lm_positions": golden.POSITIONS}


def test_equals_the_papers_arithmetic(model, inputs):
    logits = model(inputs)
    assert logits.shape == (5, 3, len(small.VOCABULARY))
    np.testing.assert_allclose(logits, golden.expected()["mlm_logits"], rtol=0, atol=1e-5)


def test_it_predicts_at_the_positions(model, inputs):
    length = golden.SEQUENCE_LENGTH
    everywhere = np.asarray(model({**inputs, "masked_lm_positions": np.tile(np.arange(length), (5, 1))}))
    generator = np.random.default_rng(0)
    for dtype in ("int32", "int64"):
        positions = generator.integers(0, length, (5, 7)).astype(dtype)  # in any order, some twice
        picked = model({**inputs, "masked_lm_positions": positions})
        np.testing.assert_allclose(picked, np.take_along_axis(everywhere, positions[:, :, None], 1), atol=1e-5)
    assert model({**inputs, "masked_lm_positions": np.zeros((5, 0), "int32")}).shape == (5, 0, len(small.VOCABULARY))


def test_the_table_is_the_encoders_and_learns_of_tokens_that_stand_in_no_text(model, inputs):
    """Through the head, which pushes down what is not the answer."""
    assert len(model.weights) == len(model.encoder.weights) + 5  # a dense layer, a normalization and a bias
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    targets = np.take_along_axis(inputs["input_word_ids"].numpy(), golden.POSITIONS, 1)
    with tf.GradientTape() as tape:
        logits = model(inputs, training=True)
        value = loss(targets, logits)
    assert np.abs(logits - model(inputs)).max() > 0.01  # dropout
    variables = [each.value for each in (*model.head.weights, model.encoder.embeddings.word_embeddings.embeddings)]
    *of_head, of_table = (np.asarray(tf.convert_to_tensor(each)) for each in tape.gradient(value, variables))
    assert all(np.abs(each).max() > 1e-6 for each in of_head)
    unused = np.delete(of_table, np.unique(inputs["input_word_ids"]), axis=0)
    assert np.abs(unused).max() > 1e-4


@pytest.mark.parametrize("format", ["hugging_face", "tf1", "garden"])
def test_saved_and_read_again(model, tmp_path, format, untraced):
    for each in (model, model.encoder):
        directory = tmp_path / type(each).__name__
        each.save_checkpoint(directory, format)
        np.testing.assert_equal(type(each).from_preset(directory).get_weights(), each.get_weights())
        with error_names(FileExistsError, "overwrite"):
            each.save_checkpoint(directory, format)


# -- Texts with masks


TEXTS = ["The [MASK] was Good! 😀", "[MASK] and  [MASK]\tplot [MASK].", "[MASK]"]


@pytest.fixture(scope="module")
def filler():
    tokenizer = small.tokenizer(special_tokens_in_text=True)
    preprocessor = small.preprocessor(tokenizer=tokenizer, max_sequence_length=48)
    return BertMaskedLM(small.encoder(num_layers=1), preprocessor)


def by_hand(model, text):
    """One text, one mask at a time, by calls on ids: {number of the mask: (ids in order, probabilities)}, in order."""
    tokenizer = model.preprocessor.tokenizer
    ids = model.preprocessor.pack(tokenizer.tokenize([text]))["input_word_ids"].numpy()
    places = np.flatnonzero(ids[0] == tokenizer.mask_token_id)
    found = {}
    while len(found) < len(places):
        logits = np.asarray(model({"input_word_ids": ids, "masked_lm_positions": places[None]}))[0]
        probabilities = tf.nn.softmax(logits).numpy()
        left = [i for i in range(len(places)) if i not in found]
        surest = max(left, key=lambda i: probabilities[i].max())
        order = np.argsort(-probabilities[surest])
        found[surest] = order, probabilities[surest][order]
        ids[0, places[surest]] = order[0]
    return found


@pytest.mark.slow
def test_the_surest_is_filled_first(filler):
    assert {len(mask) for answer in filler.fill(TEXTS, top_k=1) for mask in answer["masks"]} == {1}
    for text, answer in zip(TEXTS, filler.fill(TEXTS), strict=True):
        want = by_hand(filler, text)
        assert len(answer["masks"]) == len(want) == text.count("[MASK]")
        for number, (order, probabilities) in want.items():
            got = answer["masks"][number]
            assert [each["token"] for each in got] == [small.VOCABULARY[i] for i in order[:5]]
            np.testing.assert_allclose([each["probability"] for each in got], probabilities[:5], atol=1e-5)
    assert list(by_hand(filler, TEXTS[1])) != [0, 1, 2]  # else the order would not show


def test_the_surest_is_found_where_probabilities_are_equal():
    """The second of two masks; then the first one has another answer."""

    def predict(packed, positions):
        filled = packed["input_word_ids"][:, 1] != 9
        answer = tf.where(filled, 3, 2)
        return tf.stack([20 * tf.one_hot(answer, 5), 25 * tf.one_hot([4], 5)], axis=1)

    (found,) = fill_masks(predict, {"input_word_ids": tf.constant([[9, 9, 1]])}, mask_id=9, top_k=1)
    assert found.numpy().tolist() == [[[3, 1]], [[4, 1]]]


def test_rows_without_a_token_are_no_candidates(filler, untraced):
    """An embedding table may have more rows than there are tokens, here the most probable ones."""
    rows = -(-len(small.VOCABULARY) // 64) * 64  # rounded up
    wider = BertMaskedLM(small.encoder(num_layers=1, vocab_size=rows), filler.preprocessor)
    for ours, theirs in zip(wider.weights, filler.weights, strict=True):
        more = [(0, size - here) for size, here in zip(ours.shape, theirs.shape, strict=True)]
        ours.assign(np.pad(theirs.numpy(), more, constant_values=100.0))
    tokens = [
        [[each["token"] for each in mask] for answer in model.fill(TEXTS) for mask in answer["masks"]]
        for model in (wider, filler)
    ]
    assert tokens[0] == tokens[1]


def test_the_rest_of_the_text_stays(filler, untraced):
    answers = filler.fill(TEXTS)
    for text, answer in zip(TEXTS, answers, strict=True):
        want = text
        for candidates in answer["masks"]:
            assert len(candidates) == 5
            before, after = want.split("[MASK]", 1)
            token = candidates[0]["token"]
            want = (before.rstrip() if token.startswith("##") else before) + token.removeprefix("##") + after
        assert answer["text"] == want
    served = {name: value.numpy() for name, value in filler.serve(tf.constant([*TEXTS, "none", ""])).items()}
    assert [text.decode() for text in served["filled"]] == [*(each["text"] for each in answers), "none", ""]
    assert served["tokens"].shape == served["probabilities"].shape == (5, 3, 5)
    for row, answer in enumerate(answers):
        assert set(served["tokens"][row, len(answer["masks"]) :].ravel()) <= {b""}
    assert not served["probabilities"][3:].any()
    (cut,) = filler.serve(tf.constant(["[MASK] " + "the " * 50 + "[MASK]"]))["filled"].numpy()
    assert cut.count(b"[MASK]") == 1
    assert cut.endswith(b"the [MASK]")


def filled(tokenizer, text, tokens):
    """`text` with these tokens, by name, as the likeliest: in the graph, and in NumPy."""
    ids = np.float32([tokenizer.vocabulary.index(token) for token in tokens])[None, :, None]
    texts = GraphTokenTexts(token_texts(tokenizer))
    candidates = tf.stack([ids, tf.ones(ids.shape)], axis=-1)
    names = [name.decode() for name in texts.decode(candidates).numpy()[0, :, 0]]
    found = texts.fill(tf.constant([text]), candidates).numpy()[0].decode()
    assert token_texts(tokenizer).fill(text, ids[0, :, 0].astype(int).tolist()) == found
    return found, names


def test_wordpieces_in_a_text():
    tokenizer = small.tokenizer(special_tokens_in_text=True)
    tokens = ["good", "##ness", "film"]
    assert filled(tokenizer, "A [MASK] [MASK]\n([MASK])", tokens) == ("A goodness\n(film)", tokens)
    assert filled(tokenizer, "[MASK]ly [MASK]", ["##ed", "[SEP]"])[0] == "edly [SEP]"
    assert filled(tokenizer, "[MASK] [MASK]", ["good"])[0] == "good [MASK]"  # the second one was cut off
    assert filled(tokenizer, "none", [])[0] == "none"


def test_byte_pairs_in_a_text(untraced):
    """Which have the space before them; a token may be a part of a character."""
    tokenizer = small.byte_pairs([("Ġ", "P"), ("ĠP", "a"), ("Ġ", "a"), ("Ġ", "Ã")], special_tokens_in_text=True)
    text, names = filled(tokenizer, "<mask> is <mask>\u3000 <mask><mask>.", ["ĠPa", "Ġa", "s", "Ġ"])
    assert (text, names) == ("Pa is as .", [" Pa", " a", "s", " "])
    assert filled(tokenizer, "  <mask> (<mask>", ["ĠPa", "Ġa"])[0] == "Pa ( a"
    assert filled(tokenizer, "<mask>a <mask>", ["</s>", "ĠÃ"])[0].startswith("</s>a ")  # half of a character
    assert filled(tokenizer, "a <mask> b", ["</s>"])[0] == "a </s> b"  # which has no space of its own


@pytest.mark.slow
def test_real_tokens_in_a_text(real_tokenizer):
    assert filled(real_tokenizer("albert"), "[MASK] is [MASK] [MASK].", ["▁paris", "▁a", "s"]) == (
        "paris is as.", [" paris", " a", "s"],
    )  # fmt: skip


@pytest.mark.filterwarnings("error::UserWarning")
def test_without_a_preprocessor(tmp_path):
    model = BertMaskedLM(small.encoder(num_layers=1))
    with error_names(ValueError, "no preprocessor"):
        model.fill(["[MASK]"])
    with error_names(ValueError, "no preprocessor"):
        model.packed(["[MASK]"])
    with error_names(TypeError, "strings"):
        export_serving(model, tmp_path / "served")
    model.save_preset(tmp_path / "bare")
    assert {path.name for path in (tmp_path / "bare").iterdir()} == {"config.json", "model.safetensors", "README.md"}
    assert BertMaskedLM.from_preset(tmp_path / "bare").preprocessor is None
    (tmp_path / "bare" / "vocab.txt").write_text("\n".join([*small.VOCABULARY, "##zzz"]) + "\n", encoding="utf-8")
    with warning_names("packed inputs", "tokenizer"):
        assert BertMaskedLM.from_preset(tmp_path / "bare").preprocessor is None


EVERY = len(small.VOCABULARY)
TWO, LARGER = "[MASK] " + "the " * 50 + "[MASK]", [*small.VOCABULARY, "##zzz"]


def packed(model, **positions):
    return model({"input_word_ids": np.array([[2, 4, 3]]), **positions})


def at(positions):
    return lambda model: packed(model, masked_lm_positions=positions)


def made(tokenizer, **settings):
    return BertMaskedLM(small.encoder(num_layers=1), BertPreprocessor(tokenizer, sequence_length=20, **settings))


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda model: model.fill("a"), ValueError, ("text 0", "[MASK", "'a'")),
    (lambda model: model.fill(["a [MASK]", "b"]), ValueError, ("text 1", "[MASK", "'b'")),
    (lambda model: model.fill([TWO]), ValueError, ("2 times", "1", "48 tokens")),
    *((lambda model, k=k: model.fill("[MASK]", top_k=k), ValueError, ("top_k", k, EVERY)) for k in (0, EVERY + 1)),
    *(  # the next thing that is wrong
        (lambda model, k=k: model.fill("[MASK]", top_k=k, batch_tokens=0), ValueError, ("batch_tokens", "0"))
        for k in (1, EVERY)
    ),
    (packed, ValueError, ("missing", "[batch, predictions")),
    (at(np.array([1, 2])), ValueError, ("masked_lm_positions", "int64", "shape (2,", "[batch, predictions")),
    (at(np.array([[1.0]])), ValueError, ("masked_lm_positions", "float32")),
    (at(np.zeros((1, 1, 1), "int32")), ValueError, ("masked_lm_positions", "(1, 1, 1")),
    (lambda model: model({"masked_lm_positions": np.array([[1]])}), ValueError, ("input_word_ids",)),
    (lambda _: made(small.tokenizer()), ValueError, ("[MASK", "special_tokens_in_text=True")),
    (lambda _: made(small.tokenizer(special_tokens_in_text=True), stride=3), ValueError, ("stride", "3")),
    (lambda _: made(WordPieceTokenizer(LARGER, special_tokens_in_text=True)), ValueError, ("vocabulary",)),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:texts truncated")
def test_texts_positions_and_settings_that_cannot_be_are_refused(filler, call, error, words, untraced):
    with error_names(error, *words):
        call(filler)


def test_a_preset_without_a_head_is_refused(tmp_path):
    small.encoder(num_layers=1).save_preset(tmp_path)
    with error_names(ValueError, "masked language modeling head"):
        BertMaskedLM.from_preset(tmp_path)


@pytest.mark.parity
@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
def test_transformers_fills_masks_alike(shared_data, family, real_tokenizer, tmp_path):
    """A real BERT, and random weights of families with tokenizers of other kinds."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    directory = shared_data / "bert-tiny-mlm"
    if family != "bert":
        directory, tokenizer = tmp_path, real_tokenizer(family)
        tokenizer.save_preset(directory)
        sizes = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "num_hidden_layers": 2}
        special = {"pad_token_id": tokenizer.pad_token_id, "vocab_size": tokenizer.vocabulary_size}
        config = transformers.AutoConfig.for_model(family, **sizes, **special)
        torch.manual_seed(0)
        model = transformers.AutoModelForMaskedLM.from_config(config)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
        model.save_pretrained(directory)
    ours, theirs = BertMaskedLM.from_preset(directory), transformers.pipeline("fill-mask", model=str(directory))
    mask = ours.preprocessor.tokenizer.special_tokens["mask_token"]
    texts = [f"The capital of France is {mask}.", f"{mask} was Born in Paris", f"He {mask}ed, naïvely: 😀"]
    for text, answer in zip(texts, ours.fill(texts), strict=True):
        want, got = theirs(text), answer["masks"][0]
        assert [each["token"].strip() for each in got] == [each["token_str"].strip() for each in want]
        np.testing.assert_allclose([each["probability"] for each in got], [each["score"] for each in want], rtol=1e-3)
