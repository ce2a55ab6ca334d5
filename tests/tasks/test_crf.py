"""The CRF layer, against the sum over all paths, and against PyPI's pytorch-crf."""

import functools
import importlib.util
import itertools
import json
import logging

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from scipy.special import log_softmax

from keras_bert import CRF, BertTokenClassifier
from keras_bert.answers.entities import allowed_transitions
from keras_bert.formats.weight_files import write_checked
from keras_bert.training import fine_tune

from ..support.messages import error_names
from ..support.processes import run_python

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def sentences(labels=5, batch=6, length=6, seed=0):
    """Emissions, labels, and masks of any number of words anywhere; the first row is whole, the last is empty."""
    random = np.random.default_rng(seed)
    emissions = random.normal(size=(batch, length, labels)).astype("float32") * 3
    mask = random.random((batch, length)) < 0.6
    mask[0], mask[-1] = True, False
    return emissions, random.integers(0, labels, (batch, length)), mask


def layer(num_labels=5, seed=0, **settings):
    crf = CRF(num_labels, **settings)
    crf.build()
    random = np.random.default_rng(seed)
    crf.set_weights([random.normal(size=each.shape) for each in crf.weights])
    return crf


def all_paths(emissions, weights, may=lambda path: True):
    """The paths through a sentence and the logarithms of their probabilities: `[paths, words]` and `[paths]`."""
    start, transitions, end = weights
    words, labels = emissions.shape
    paths = np.array([path for path in itertools.product(range(labels), repeat=words) if may(path)])
    scores = start[paths[:, 0]] + end[paths[:, -1]] + emissions[np.arange(words), paths].sum(1, dtype="float64")
    scores += transitions[paths[:, :-1], paths[:, 1:]].sum(1)
    return paths, log_softmax(scores)


def may_by(scheme):
    """Says of a path whether the scheme allows it."""
    start, between, end = allowed_transitions(LABELS, scheme)
    return lambda path: bool(start[path[0]] and end[path[-1]] and between[[*path[:-1]], [*path[1:]]].all())


def all_three(crf, emissions, labels, mask):
    return crf.log_likelihood(emissions, labels, mask), crf.decode(emissions, mask), crf.marginals(emissions, mask)


def check_against_all_paths(crf, emissions, labels, mask, may=lambda path: True, atol=1e-5):
    likelihoods, best, marginals = map(ops.convert_to_numpy, all_three(crf, emissions, labels, mask))
    for row, is_word in enumerate(mask):
        assert (best[row][~is_word] == -1).all()
        assert (marginals[row][~is_word] == 0).all()
        if not is_word.any():
            assert likelihoods[row] == 0
            continue
        paths, log_probabilities = all_paths(emissions[row][is_word], crf.get_weights(), may)
        assert (best[row][is_word] == paths[log_probabilities.argmax()]).all()
        expected = np.einsum("p,pwl->wl", np.exp(log_probabilities), np.eye(crf.num_labels)[paths])
        np.testing.assert_allclose(marginals[row][is_word], expected, atol=1e-5)
        np.testing.assert_allclose(marginals[row][is_word].sum(-1), 1, atol=1e-6)
        if may(path := tuple(labels[row][is_word])):
            here = (paths == path).all(1)
            np.testing.assert_allclose(likelihoods[row], log_probabilities[here][0], atol=atol, rtol=1e-5)


def test_likelihood_path_and_marginals_are_those_of_the_sum_over_all_paths():
    check_against_all_paths(layer(), *sentences())


def test_the_emissions_of_masked_positions_do_not_matter():
    crf, (emissions, labels, mask) = layer(), sentences()
    other = np.where(mask[..., None], emissions, np.nan)
    for found, expected in zip(*(all_three(crf, each, labels, mask) for each in (other, emissions)), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_negative_label_masks_its_position():
    crf, (emissions, labels, mask) = layer(), sentences()
    expected = crf.log_likelihood(emissions, labels, mask)
    np.testing.assert_array_equal(crf.log_likelihood(emissions, np.where(mask, labels, -1)), expected)


@pytest.mark.parametrize("scheme", ["BIO", "IOB1"])
def test_what_a_scheme_forbids_has_no_probability(scheme):
    crf = layer(scheme=scheme, labels=LABELS)
    emissions, labels, mask = sentences()
    labels[0] = [0, 1, 2, 2, 3, 0] if scheme == "BIO" else [0, 2, 2, 1, 4, 0]
    check_against_all_paths(crf, emissions, labels, mask, may_by(scheme))


@pytest.mark.parametrize("size", [1, 1e8, 4e9, 1e20])
def test_emissions_of_any_size_and_minus_infinity_have_the_path_of_the_sum_over_all_paths(size):
    emissions, labels, mask = sentences()
    emissions, labels[0], labels[1] = emissions * np.float32(size), 0, 1
    emissions[0, :, 3:] = emissions[1, :, 1] = -np.inf  # labels that are ruled out, the second one nevertheless given
    arguments = (layer(scheme="BIO", labels=LABELS), emissions, labels, mask)
    check_against_all_paths(*arguments, may_by("BIO"), atol=1e-5 * size)


def test_no_path_breaks_the_scheme_for_what_is_not_a_number():
    random = np.random.default_rng(0)
    values = np.float32([np.nan, np.inf, -np.inf, 3e38, -3e38, 0, 1])
    paths = layer(scheme="BIO", labels=LABELS).decode(random.choice(values, [200, 6, 5]))
    assert all(map(may_by("BIO"), np.asarray(paths)))


ALLOWED = {  # scheme -> sentences that it allows, and sentences that it forbids
    "BIO": (["O B I I O", "B B I", "B", "O"], ["I", "O I", "B I O I"]),
    "IOB1": (["I I O", "I B I", "I B B O"], ["B", "O B"]),
    "IOE": (["I I E O", "E E", "I E I E"], ["I", "I O", "E I"]),
    "BIOES": (["O B I I E S", "S S", "B E B E"], ["B", "I E", "B O", "B S", "O E", "S I E", "B E E"]),
    "BILOU": (["O B I I L U", "U U", "B L B L"], ["B", "I L", "B O", "B U", "O L", "U I L"]),
    "BMES": (["B M M E S", "S S", "B E B E"], ["B", "M E", "B S", "E E", "S M E"]),
}


@pytest.mark.parametrize("scheme", ALLOWED)
def test_schemes_allow_whole_entities_and_forbid_parts(scheme):
    letters = sorted({*" ".join(ALLOWED[scheme][0]).split()} - {"O"})
    labels = ["O", *(f"{letter}-{kind}" for kind in ("PER", "LOC") for letter in letters)]
    start, between, end = allowed_transitions(labels, scheme)

    def may(sentence):
        path = [labels.index(each if each == "O" else f"{each}-PER") for each in sentence.split()]
        return start[path[0]] and between[path[:-1], path[1:]].all() and end[path[-1]]

    allowed, forbidden = ALLOWED[scheme]
    assert [each for each in allowed if not may(each)] == []
    assert [each for each in forbidden if may(each)] == []
    inside = next(each for each in ("I", "M", "E") if each in letters)
    others = [labels.index(f"{each}-PER") for each in letters if each in ("B", "I", "M")]
    if scheme not in ("IOB1", "IOE"):
        assert not between[others, labels.index(f"{inside}-LOC")].any()  # an entity of another kind


def test_labels_that_break_the_scheme_can_be_learned_from():
    crf = CRF(5, scheme="BIO", labels=LABELS)
    likelihood = crf.log_likelihood(ops.zeros([1, 2, 5]), ops.array([[0, 2]]))  # I-PER after O
    np.testing.assert_allclose(likelihood, 2 * np.log(1 / 5), rtol=1e-6)


def model_with(crf, **compiled):
    words = keras.Input([None], dtype="int32")
    hidden = keras.layers.Embedding(50, 16, mask_zero=True)(words)
    emissions = crf(keras.layers.Dense(crf.num_labels)(hidden))
    model = keras.Model(words, emissions)
    model.compile(keras.optimizers.Adam(0.05), loss=crf.loss, **compiled)
    return model, keras.Model(words, crf.decode(emissions))


def words_and_labels():
    """Labels that the words before them decide: the same word is 1 at first, and then 2."""
    words = np.random.default_rng(0).integers(1, 50, (64, 8))
    words[:32, 5:] = 0
    return words, np.where(words == 0, 0, 1 + np.arange(8) % 2)


@pytest.mark.slow
def test_a_model_in_five_lines_learns_with_the_mask_of_its_embedding_also_in_xla():
    keras.utils.set_random_seed(0)
    model, tagger = model_with(CRF(3), jit_compile=True)
    words, labels = words_and_labels()
    history = model.fit(words, labels, epochs=30, validation_data=(words, labels), verbose=0).history
    assert history["val_loss"][-1] < history["loss"][0] / 5
    np.testing.assert_array_equal(tagger.predict(words, verbose=0), np.where(words > 0, labels, -1))


def test_the_loss_is_the_mean_over_words_and_masks_what_weighs_nothing():
    crf, (emissions, labels, mask) = layer(), sentences()
    likelihoods = ops.convert_to_numpy(crf.log_likelihood(emissions, labels, mask))
    expected = -likelihoods.sum() / mask.sum()
    hidden = np.where(mask, labels, -1)
    np.testing.assert_allclose(crf.loss(hidden, emissions), expected, rtol=1e-5)
    np.testing.assert_allclose(crf.loss(labels, emissions, sample_weight=mask.astype("float32")), expected, rtol=1e-5)
    weights = np.array([1, 0, 2, 1, 1, 1], "float32")
    weighted = -(likelihoods * weights).sum() / mask.sum()
    np.testing.assert_allclose(crf.loss(hidden, emissions, sample_weight=weights), weighted, rtol=1e-5)


@pytest.mark.slow
def test_a_keras_file_keeps_the_layer_and_the_loss_that_trains_it(tmp_path):
    model, tagger = model_with(CRF(5, scheme="BIO", labels=LABELS))
    words, labels = words_and_labels()
    model.fit(words, labels, verbose=0)
    model.save(tmp_path / "model.keras")
    tagger.save(tmp_path / "tagger.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    (crf,) = (each for each in again.layers if isinstance(each, CRF))
    assert (crf.scheme, list(crf.labels)) == ("BIO", LABELS)
    assert again.evaluate(words, labels, verbose=0) == model.evaluate(words, labels, verbose=0)
    before = ops.convert_to_numpy(crf.transitions)
    again.fit(words, labels, verbose=0)
    assert (ops.convert_to_numpy(crf.transitions) != before).any()
    loaded = keras.saving.load_model(tmp_path / "tagger.keras")
    np.testing.assert_array_equal(loaded.predict(words, verbose=0), tagger.predict(words, verbose=0))


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [None, False, True], ids=["eager", "graph", "XLA"])
def test_any_batch_and_length_take_one_graph_also_without_sentences_or_words(compiled):
    crf = layer()
    specs = [tf.TensorSpec([None, None, 5]), *(tf.TensorSpec([None, None], kind) for kind in (tf.int32, tf.bool))]
    call = functools.partial(all_three, crf)
    traced = call if compiled is None else tf.function(call, specs, jit_compile=compiled)
    for length in (1, 5) if compiled is False else ():
        emissions, labels, mask = sentences(length=length)
        results = traced(emissions, labels.astype("int32"), mask)
        for ours, theirs in zip(results, all_three(crf, emissions, labels, mask), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)
    for shape in ((0, 3, 5), (2, 0, 5), (0, 0, 5)):
        emissions, labels = np.zeros(shape, "float32"), np.zeros(shape[:2], "int32")
        likelihoods, best, marginals = traced(emissions, labels, np.zeros(shape[:2], bool))
        assert np.array_equal(likelihoods, np.zeros(shape[0]))
        assert (best.shape, marginals.shape) == (shape[:2], shape)
        assert np.shape(crf.loss(labels, emissions)) == ()


@pytest.mark.slow
def test_long_sentences_lose_no_precision():
    emissions, labels, _ = sentences(length=512, batch=2)
    measures = []
    for crf in (layer(), layer(dtype="float64")):
        # In a graph: each of the 512 steps of a sum takes milliseconds outside of one.
        measure = tf.function(lambda crf=crf: (crf.marginals(emissions), crf.log_likelihood(emissions, labels)))
        measures.append(measure())
    (marginals, likelihoods), (exact_marginals, exact_likelihoods) = measures
    np.testing.assert_allclose(marginals, exact_marginals, atol=1e-5)
    np.testing.assert_allclose(likelihoods, exact_likelihoods, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["mixed_float16", "bfloat16"])
def test_sums_are_in_float32_whatever_the_policy(dtype):
    crf, (emissions, labels, mask) = layer(dtype=dtype), sentences(length=16)
    assert {each.dtype for each in crf.weights} == {"float32"}
    assert keras.backend.standardize_dtype(crf(emissions).dtype) == "float32"
    for found, expected in zip(*(all_three(each, emissions, labels, mask) for each in (crf, layer())), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: CRF(0), ("num_labels", "0", "1 or more")),
    (lambda: CRF(5, scheme="BIO"), ("both",)),
    (lambda: CRF(2, scheme="BIO", labels=LABELS), ("5 labels", "num_labels", "2")),
    (lambda: CRF(5, scheme="IO", labels=LABELS), ("scheme", "'IO'", "BIO, BIOES, BILOU, BMES, IOB1, IOE")),
    (lambda: allowed_transitions(LABELS, "IOB2"), ("scheme", "'IOB2'", "BIO, BIOES")),
    (lambda: CRF(5, scheme="IOE", labels=LABELS), ("'B-LOC'", "IOE", "I, E")),
    (lambda: CRF(5).decode(ops.zeros([1, 2, 4])), ("4 labels", "num_labels", "5")),
])  # fmt: skip
def test_labels_that_do_not_fit_are_refused(call, words):
    with error_names(ValueError, *words):
        call()


WORDS = [["Ada", "Lovelace", "sang"], ["in", "New", "York"], ["nobody", "sang"]]
TAGS = [["B-PER", "I-PER", "O"], ["O", "B-LOC", "I-LOC"], ["O", "O"]]


def tagger_of(preset, **settings):
    keras.utils.set_random_seed(1)
    model = BertTokenClassifier.from_preset(preset, labels=LABELS, crf=True, **settings)
    model.crf.set_weights(layer().get_weights())
    return model


def test_a_tagger_with_a_crf_answers_by_the_best_path_of_its_words(small_preset, untraced):
    model = tagger_of(small_preset)
    assert model.crf.scheme == "BIO"
    answers = model.tag(WORDS)
    assert [[each["word"] for each in sentence] for sentence in answers] == WORDS
    targets = [[LABELS.index(each["label"]) for each in sentence] for sentence in answers]
    packed, numbers = model.arrays(WORDS, TAGS)
    emissions, first = model(packed), np.array(numbers) >= 0
    best, marginals = np.array(model.crf.decode(emissions, first)), np.array(model.crf.marginals(emissions, first))
    for row, (path, sentence) in enumerate(zip(targets, answers, strict=True)):
        assert best[row][first[row]].tolist() == path
        expected = marginals[row][first[row]][np.arange(len(path)), path]
        np.testing.assert_allclose([each["probability"] for each in sentence], expected, atol=1e-5)


def test_windows_are_one_sentence_to_the_crf(small_preset, untraced):
    whole = tagger_of(small_preset)
    cut = tagger_of(small_preset, long_text="windows", sequence_length=6)
    words, tags = [[*itertools.chain(*WORDS)]], [[*itertools.chain(*TAGS)]]
    packed, targets = cut.arrays(words, tags)
    assert len(targets.shape) == 3
    random = np.random.default_rng(0)
    emissions = random.normal(size=(*targets.shape, 5)).astype("float32")
    first = np.array(targets) >= 0
    expected = whole.crf.log_likelihood(emissions[first][None], np.array(targets)[first][None])
    np.testing.assert_allclose(cut.training_loss()(targets, emissions), -expected[0] / first.sum(), rtol=1e-5)
    (answers,) = cut.tag(words)
    emissions = np.array(cut(packed))
    path, marginals = cut.crf.decode(emissions[first][None])[0], cut.crf.marginals(emissions[first][None])[0]
    assert [each["label"] for each in answers] == [LABELS[each] for each in path]
    expected = np.array(marginals)[np.arange(len(path)), path]
    np.testing.assert_allclose([each["probability"] for each in answers], expected, atol=1e-5)
    by_window = cut.crf.marginals(emissions[0], first[0])  # the answers of sentences that end with their windows
    assert np.abs(np.array(by_window)[first[0]] - marginals).max() > 0.01


def test_a_preset_keeps_the_crf_in_a_file_of_its_own(small_preset, tmp_path):
    tagger_of(small_preset).save_preset(tmp_path)
    assert "crf.safetensors" in (tmp_path / "README.md").read_text()
    plain = BertTokenClassifier.from_preset(tmp_path, crf=False)
    assert plain.crf is None
    plain.save_preset(tmp_path, overwrite=True)
    assert not (tmp_path / "crf.safetensors").exists()


def test_a_crf_and_a_configuration_that_lost_each_other(small_preset, tmp_path):
    tagger_of(small_preset).save_preset(tmp_path)
    crf, config = tmp_path / "crf.safetensors", tmp_path / "config.json"
    written, settings = crf.read_bytes(), config.read_text()
    transformers_config = json.loads(settings)
    del transformers_config["keras_bert"]  # as a program writes it that does not know the section
    config.write_text(json.dumps(transformers_config))
    with error_names(ValueError, crf, config, "keras_bert.model.crf", "pass crf"):
        BertTokenClassifier.from_preset(tmp_path)
    for scheme in (True, "BIO"):
        again = BertTokenClassifier.from_preset(tmp_path, crf=scheme)
        assert all(map(np.array_equal, again.crf.get_weights(), layer().get_weights()))
    assert BertTokenClassifier.from_preset(tmp_path, crf=False).crf is None
    config.write_text(settings)
    crf.write_bytes(written[:-9] + bytes([written[-9] ^ 1]) + written[-8:])
    with error_names(ValueError, crf, "damaged", "checksum"):
        BertTokenClassifier.from_preset(tmp_path)
    write_checked(crf, {each.name: np.zeros(each.shape, np.float32) for each in layer(4).weights}, {})
    with error_names(ValueError, crf, "5 labels"):
        BertTokenClassifier.from_preset(tmp_path)
    crf.unlink()
    with error_names(FileNotFoundError, tmp_path, "no crf.safetensors"):
        BertTokenClassifier.from_preset(tmp_path)


def test_a_new_crf_starts_from_the_labels_of_its_examples(small_preset):
    model = BertTokenClassifier.from_preset(small_preset, labels=LABELS, crf=True)
    model.kind.initialize_head(model.head, model.examples(WORDS, TAGS).targets)
    transitions = np.array(model.crf.transitions)
    assert transitions[1].argmax() == 2  # I-PER after B-PER
    assert transitions[3].argmax() == 4
    pairs = {(LABELS.index(one), LABELS.index(two)) for row in TAGS for one, two in itertools.pairwise(row)}
    unseen = [(one, two) for one in {one for one, _ in pairs} for two in range(5) if (one, two) not in pairs]
    assert all(transitions[pair] < 0 for pair in unseen)  # however rare the label
    counts = np.array([1 + sum(row.count(label) for row in TAGS) for label in LABELS])
    np.testing.assert_allclose(np.exp(model.head.logits.bias), counts / counts.sum(), rtol=1e-5)
    model.kind.initialize_head(model.head, model.examples(WORDS[2:], TAGS[2:]).targets)  # of a trained model: they stay
    np.testing.assert_array_equal(model.crf.transitions, transitions)


@pytest.mark.slow
def test_lora_trains_the_crf_and_its_answers_stay_when_it_is_merged(small_preset, untraced):
    model = tagger_of(small_preset, dropout=0.0)
    before, kernel = model.crf.get_weights(), model.encoder.blocks[0].attention.qkv.kernel
    kernel_before, seen = np.array(kernel), []
    tag = keras.callbacks.LambdaCallback(on_train_end=lambda logs: seen.append(model.tag(WORDS)))
    fine_tune(model, (WORDS, TAGS), lora_rank=2, epochs=1, learning_rate=0.1, progress=False, callbacks=[tag])
    assert not any(map(np.array_equal, model.crf.get_weights(), before))
    assert np.linalg.matrix_rank(kernel - kernel_before, tol=1e-5) == 2  # merged
    near = functools.partial(pytest.approx, abs=1e-5)
    expected = [[{**word, "probability": near(word["probability"])} for word in each] for each in seen[-1]]
    assert model.tag(WORDS) == expected


@pytest.mark.parity
@pytest.mark.parametrize("pooler", [False, True])
def test_transformers_reads_a_preset_and_gives_the_emissions(small_preset, tmp_path, caplog, pooler):
    """Without a warning, unless there is a pooler, which its models for words do not have."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    model = tagger_of(small_preset, pooler=pooler)
    model.save_preset(tmp_path)
    logger = logging.getLogger("transformers")
    logger.addHandler(caplog.handler)
    kind = transformers.AutoModelForTokenClassification
    try:
        theirs, report = kind.from_pretrained(tmp_path, output_loading_info=True)
    finally:
        logger.removeHandler(caplog.handler)
    unused = {"unexpected_keys": {"bert.pooler.dense.weight", "bert.pooler.dense.bias"}} if pooler else {}
    # The root logger may hold the same handler, so a warning can come twice.
    assert bool([each for each in caplog.records if each.name.startswith("transformers")]) == pooler
    assert {name: set(names) for name, names in report.items() if names} == unused
    assert theirs.config.id2label == dict(enumerate(LABELS))
    packed, _ = model.arrays(WORDS, TAGS)
    names = {"input_ids": "input_word_ids", "attention_mask": "input_mask", "token_type_ids": "input_type_ids"}
    with torch.no_grad():
        logits = theirs.eval()(**{name: torch.tensor(packed[ours].numpy()) for name, ours in names.items()}).logits
    is_token = np.array(packed["input_mask"]) > 0
    np.testing.assert_allclose(np.array(model(packed))[is_token], logits.numpy()[is_token], atol=1e-5)


def gradients(crf, emissions, labels, mask):
    emissions = tf.constant(emissions)
    with tf.GradientTape() as tape:
        tape.watch(emissions)
        total = tf.reduce_sum(crf.log_likelihood(emissions, labels, mask))
    return [np.array(each) for each in tape.gradient(total, [emissions, *(each.value for each in crf.weights)])]


@pytest.mark.parity
def test_pytorch_crf_has_the_same_likelihood_gradient_and_path():
    """In float64, as its gradients in float32 are further from these than ours in float32."""
    torch, torchcrf = pytest.importorskip("torch"), pytest.importorskip("torchcrf")
    for case in range(60):
        random = np.random.default_rng(case)
        count, length = int(random.integers(2, 9)), int(random.integers(1, 12))
        emissions, labels, _ = sentences(count, 4, length, seed=case)
        lengths = random.integers(1, length + 1, 4)
        mask = np.arange(length) < lengths[:, None]  # it has no other masks
        crf, peer = layer(count, seed=case), torchcrf.CRF(count, batch_first=True).double()
        weights = (peer.start_transitions, peer.transitions, peer.end_transitions)
        for theirs, ours in zip(weights, crf.get_weights(), strict=True):
            theirs.data = torch.tensor(ours).double()
        inputs = torch.tensor(emissions, dtype=torch.float64, requires_grad=True)
        likelihoods = peer(inputs, torch.tensor(labels), torch.tensor(mask), reduction="none")
        likelihoods.sum().backward()
        found = crf.log_likelihood(emissions, labels, mask)
        np.testing.assert_allclose(found, likelihoods.detach(), atol=1e-5, rtol=1e-5)
        for ours, theirs in zip(gradients(crf, emissions, labels, mask), (inputs, *weights), strict=True):
            expected = 0 if theirs.grad is None else theirs.grad  # of transitions, if there is one word
            np.testing.assert_allclose(ours, expected, atol=1e-5)
        best = ops.convert_to_numpy(crf.decode(emissions, mask))
        assert [row[row >= 0].tolist() for row in best] == peer.decode(inputs, torch.tensor(mask))


OTHER_BACKEND = """
import json, sys
import keras, numpy as np
from keras import ops
from keras_bert import CRF

emissions, labels, mask, weights = json.loads(sys.argv[1])
emissions, labels, mask = np.array(emissions, "float32"), np.array(labels), np.array(mask)
crf = CRF(emissions.shape[-1])
crf.build()
crf.set_weights([np.array(each) for each in weights])
results = crf.log_likelihood(emissions, labels, mask), crf.decode(emissions, mask), crf.marginals(emissions, mask)
words = keras.Input([None], dtype="int32")
other = CRF(3)
model = keras.Model(words, other(keras.layers.Dense(3)(keras.layers.Embedding(9, 8, mask_zero=True)(words))))
model.compile("sgd", loss=other.loss)
x, y = np.array([[3, 4, 0], [5, 6, 7]]), np.array([[1, 2, 0], [0, 1, 2]])
loss = model.fit(x, y, epochs=5, verbose=0).history["loss"]
assert loss[-1] < loss[0] and (ops.convert_to_numpy(other.transitions) != 0).any(), loss
assert "tensorflow" not in sys.modules
print(json.dumps([keras.backend.backend(), *(ops.convert_to_numpy(each).tolist() for each in results)]))
"""


@pytest.mark.parity
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_other_backends_have_the_same_numbers_and_need_no_tensorflow(backend):
    if not importlib.util.find_spec(backend):
        pytest.skip(f"{backend} is not installed")
    crf, given = layer(), sentences()
    data = json.dumps([*(each.tolist() for each in given), [each.tolist() for each in crf.get_weights()]])
    variables = {"KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu"}
    name, *results = json.loads(run_python(OTHER_BACKEND, data, **variables).splitlines()[-1])
    assert name == backend
    emissions, labels, mask = given
    for ours, theirs in zip(results, all_three(crf, emissions, labels, mask), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
