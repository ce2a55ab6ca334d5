"""Distillation: which layers a student begins with, what its loss is, and that it learns what the teacher says."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.special import log_softmax

from keras_bert import (
    BertClassifier,
    BertConfig,
    BertEncoder,
    BertPreprocessor,
    BertQuestionAnswerer,
    BertTokenClassifier,
)
from keras_bert.pretraining import BertPretrainer
from keras_bert.tasks.steps.training_step import on_labels, weighted_sum
from keras_bert.training import fine_tune, learning_from, student_of
from keras_bert.training.distillation import distilling
from keras_bert.training.run import RunError

from ..support import small
from ..support.corpus import encoder
from ..support.messages import error_names

pytestmark = pytest.mark.slow

LABELS = ["x", "y", "z"]
SETTINGS = {  # of each kind of model
    "classifier": (BertClassifier, {"labels": LABELS}),
    "token classifier": (BertTokenClassifier, {"labels": LABELS}),
    "CRF": (BertTokenClassifier, {"labels": ["O", "B-x", "I-x"], "crf": True}),
    "pretrainer": (BertPretrainer, {}),
}
INPUTS = ("input_word_ids", "input_mask", "input_type_ids")


@pytest.fixture(scope="module")
def teacher(preprocessor):
    """With DistilBERT's number of layers, which are narrow."""
    sizes = {"num_layers": 12, "hidden_size": 8, "intermediate_size": 8}
    return BertClassifier(encoder(initializer_range=0.3, **sizes), preprocessor, LABELS)


@pytest.fixture(scope="module")
def pretrained(preprocessor):
    return BertPretrainer(encoder(initializer_range=0.3), preprocessor)


def test_a_student_has_every_other_layer_of_its_teacher(teacher):
    student = student_of(teacher, num_layers=6)
    assert student.encoder.config.num_layers == 6
    # DistilBERT's, of a teacher with twelve: scripts/extract_distilbert.py of its authors.
    for block, number in zip(student.encoder.blocks, [0, 2, 4, 7, 9, 11], strict=True):
        np.testing.assert_equal(block.get_weights(), teacher.encoder.blocks[number].get_weights())
    parts = [(model.encoder.embeddings, model.encoder.pooler, model.head) for model in (student, teacher)]
    for ours, theirs in zip(*parts, strict=True):
        assert ours.get_weights()
        np.testing.assert_equal(ours.get_weights(), theirs.get_weights())
    student.encoder.pooler.kernel.assign(0 * student.encoder.pooler.kernel)
    assert np.any(teacher.encoder.pooler.kernel)  # the two share nothing


@pytest.mark.parametrize("name", SETTINGS)
def test_with_all_layers_it_is_the_teacher(name, preprocessor, batch):
    kind, settings = SETTINGS[name]
    model = small.shaken(kind(encoder(initializer_range=0.3, num_layers=2), preprocessor, **settings))
    inputs = {name: batch[name] for name in INPUTS + ("masked_lm_positions",) * (kind is BertPretrainer)}
    student = student_of(model, model.encoder.config.num_layers)
    assert all(map(np.array_equal, student.get_weights(), model.get_weights()))  # those of a CRF, too
    for ours, theirs in zip(*(keras.tree.flatten(each(inputs)) for each in (student, model)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_layers_that_share_their_weights(preprocessor):
    sizes = {"hidden_size": 32, "num_layers": 4, "num_heads": 2, "intermediate_size": 64, "embedding_size": 16}
    config = BertConfig(preprocessor.tokenizer.vocabulary_size, **sizes, family="albert", num_groups=1)
    teacher = BertPretrainer(BertEncoder(config), preprocessor)
    student = student_of(teacher, num_layers=2)
    assert student.encoder.config.num_layers == 2
    assert [each.shape for each in student.weights] == [each.shape for each in teacher.weights]
    assert all(map(np.array_equal, student.get_weights(), teacher.get_weights()))
    teacher = BertPretrainer(BertEncoder(BertConfig(**{**config.to_dict(), "num_groups": 2})), preprocessor)
    with error_names(ValueError, "4 layers", "teacher", "2 groups"):
        student_of(teacher, num_layers=2)


@pytest.mark.parametrize("layers", [0, 13])
def test_more_layers_than_the_teacher_has(teacher, layers):
    with error_names(ValueError, "num_layers", layers, "1 to 12", "teacher"):
        student_of(teacher, layers)


def divergence(teacher, student, temperature):
    """In float64, as the paper of Hinton et al. (2015) has it, times the square of the temperature."""
    theirs, ours = (log_softmax(np.float64(each) / temperature, axis=-1) for each in (teacher, student))
    return temperature**2 * (np.exp(theirs) * (theirs - ours)).sum(-1)


def losses(student, teacher, inputs, targets, temperature, weights=None):
    """A student's own loss, and the one with the teacher, as a step of training has them."""
    student.compile("sgd", student.training_loss())
    steps = (on_labels, distilling(teacher, temperature))
    passes = [step(student, tf.GradientTape(), inputs, targets, weights) for step in steps]
    return [np.float64(weighted_sum(each.terms)) for each in passes]


@pytest.mark.parametrize("problem_type", ["single_label_classification", "multi_label_classification", "regression"])
def test_the_loss_of_a_classifier(preprocessor, problem_type, batch):
    student, teacher = (
        BertClassifier(encoder(seed, initializer_range=0.5), preprocessor, LABELS, problem_type) for seed in (1, 2)
    )
    inputs = {name: batch[name] for name in INPUTS}
    targets = np.random.default_rng(0).integers(0, 2, (16, 3))
    targets = np.arange(16) % 3 if problem_type.startswith("single") else targets
    weights = np.linspace(0.0, 2.0, 16, dtype=np.float32)
    ours, theirs = (np.float64(model(inputs)) for model in (student, teacher))
    if problem_type == "regression":
        apart = ((ours - theirs) ** 2).mean(-1)
    elif problem_type == "multi_label_classification":
        two = [np.stack([each, 0 * each], axis=-1) for each in (theirs, ours)]
        apart = divergence(*two, temperature=3.0).mean(-1)
    else:
        apart = divergence(theirs, ours, temperature=3.0)
    assert (weights * apart).mean() > 0.01
    alone, together = losses(student, teacher, inputs, targets, 3.0, weights)
    np.testing.assert_allclose(together, 0.5 * alone + 0.5 * (weights * apart).mean(), rtol=1e-5)


# Of the teacher and of the student: whether they have a CRF.
CRFS = {"none": (False, False), "both": (True, True), "the student": (False, True)}


def taggers(crfs, preprocessor):
    return [
        small.shaken(BertTokenClassifier(encoder(seed), preprocessor, ["O", "B-x", "I-x"], 0.0, crf), seed)
        for seed, crf in enumerate(crfs)
    ]


@pytest.mark.parametrize(("crfs", "weighted"), [
    ("none", "sentences"), ("none", "words"), ("both", None), ("both", "sentences"), ("the student", "words"),
])  # fmt: skip
def test_the_loss_of_a_token_classifier(preprocessor, batch, crfs, weighted):
    teacher, student = taggers(CRFS[crfs], preprocessor)
    inputs = {name: batch[name] for name in INPUTS}
    random = np.random.default_rng(0)
    is_word = (random.random(batch["input_mask"].shape) < 0.6) & (batch["input_mask"] > 0)
    is_word[3] = False
    targets = np.where(is_word, random.integers(0, 3, is_word.shape), -1)
    weights = random.uniform(0.5, 2, is_word.shape if weighted == "words" else (16, 1)).astype("float32")
    divergences = divergence(*(np.float64(model(inputs)) for model in (teacher, student)), temperature=3.0)
    if weighted:
        divergences *= weights
    if weighted == "sentences" and student.crf:  # without a CRF, Keras's loss needs a second axis
        weights = weights[:, 0]
    alone, together = losses(student, teacher, inputs, targets, 3.0, weights if weighted else None)
    assert divergences[is_word].mean() > 0.1
    np.testing.assert_allclose(together, 0.5 * alone + 0.5 * divergences[is_word].mean(), rtol=1e-5)


@pytest.mark.parametrize("crf", [False, True])
def test_a_student_of_words_is_trained_on_the_first_tokens(preprocessor, crf, untraced):
    """By `fine_tune`, whose first loss is that of the student as it is."""
    teacher, student = taggers((crf, crf), preprocessor)
    x, y = [["a0.", "b1..", "b2"], ["c2"], ["d0", "d1."]], [["B-x", "I-x", "O"], ["O"], ["O", "B-x"]]
    packed, targets = student.arrays(x, y)
    is_word = np.asarray(targets) >= 0
    assert is_word.sum() == 6 < np.sum(packed["input_mask"]) - 6  # a word has several tokens
    divergences = divergence(*(np.float64(model(packed)) for model in (teacher, student)), temperature=2.0)[is_word]
    student.compile("sgd", student.training_loss())
    alone = float(student.compute_loss(packed, targets, student(packed), training=False))
    before = [model.get_weights() for model in (teacher, student)]
    settings = {"epochs": 1, "batch_size": 3, "frozen_layers": 1, "progress": False}
    (epoch,) = fine_tune(student, (x, y), teacher=teacher, **settings)
    assert epoch["loss"] == pytest.approx(0.5 * alone + 0.5 * divergences.mean(), rel=1e-5)
    assert all(map(np.array_equal, teacher.get_weights(), before[0]))
    assert not any(map(np.array_equal, student.head.get_weights(), before[1][-len(student.head.weights) :]))


@pytest.mark.parametrize("pairs", [True, False])
def test_the_loss_of_a_masked_language_model(preprocessor, pairs, batch):
    student, teacher = (BertPretrainer(encoder(seed, initializer_range=0.5), preprocessor, pairs) for seed in (1, 2))
    inputs = {name: batch[name] for name in (*INPUTS, "masked_lm_positions")}
    targets, weights = {"masked_lm": batch["masked_lm_ids"]}, {"masked_lm": batch["masked_lm_weights"]}
    if pairs:
        targets["next_sentence"] = batch["next_sentence_labels"]
        weights["next_sentence"] = np.ones(16, np.float32)
    ours, theirs = ({name: np.float64(value) for name, value in model(inputs).items()} for model in (student, teacher))
    apart = divergence(theirs["masked_lm"], ours["masked_lm"], temperature=2.0)[batch["masked_lm_weights"] > 0].mean()
    real = batch["input_mask"] > 0
    assert not real.all()
    hidden = [each["sequence_output"][real] for each in (ours, theirs)]
    cosine = (hidden[0] * hidden[1]).sum(-1) / np.prod([np.linalg.norm(each, axis=-1) for each in hidden], axis=0)
    alone, together = losses(student, teacher, inputs, targets, 2.0, weights)
    # DistilBERT's weights for labels, teacher and hidden states: 2, 5 and 1, of 8.
    np.testing.assert_allclose(together, (2 * alone + 5 * apart + (1 - cosine).mean()) / 8, rtol=1e-5)


def test_the_teacher_stays_as_it_is_and_apart(preprocessor, batch, untraced):
    teacher = BertClassifier(encoder(), preprocessor, LABELS)
    student = student_of(teacher, num_layers=1)
    weights, before = len(student.weights), teacher.get_weights()
    own, examples = student.compute_loss, ({name: batch[name] for name in INPUTS}, np.arange(16) % 3)
    with learning_from(teacher, student):
        student.compile(keras.optimizers.SGD(1.0), student.training_loss())
        student.fit(*examples, verbose=0)
        traced_with_teacher = student.train_function
        assert len(student.weights) == weights  # with the teacher's, they would be saved
    assert all(map(np.array_equal, teacher.get_weights(), before))
    assert not any(map(np.array_equal, student.head.get_weights(), teacher.head.get_weights()))
    assert student.compute_loss == own
    assert student.train_function is not traced_with_teacher


def test_it_learns_what_the_teacher_says(tmp_path, preprocessor):
    """The labels say nothing: every text has each of the two once."""
    teacher, student = (BertClassifier(encoder(seed), preprocessor, ["a", "b"]) for seed in (0, 1))
    texts = [f"{letter}{i} {letter}{j}" for letter in "abcdefgh" for i in range(4) for j in range(4)]
    labels = ["a" if text[0] in "aceg" else "b" for text in texts]
    fine_tune(teacher, (texts, labels), epochs=10, learning_rate=3e-3, progress=False)
    right = [answer["label"] for answer in teacher.classify(texts)]
    assert right == labels
    nothing = (texts * 2, ["a"] * len(texts) + ["b"] * len(texts))
    settings = {"epochs": 8, "learning_rate": 3e-3, "progress": False}
    fine_tune(student, nothing, directory=tmp_path, teacher=teacher, **settings)
    same = np.mean([ours["label"] == theirs for ours, theirs in zip(student.classify(texts), right, strict=True)])
    assert same > 0.9
    # A run goes on with its teacher only.
    with error_names(RunError, tmp_path, "finished", "teacher"):
        fine_tune(student, nothing, directory=tmp_path, **settings)
    teacher.head.logits.bias.assign_add([1.0, 0.0])
    with error_names(RunError, tmp_path, "finished", "teacher"):
        fine_tune(student, nothing, directory=tmp_path, teacher=teacher, **settings)


def test_a_teacher_of_another_kind_is_refused(teacher, pretrained, preprocessor):
    student = student_of(teacher, num_layers=1)
    windows = BertPreprocessor(preprocessor.tokenizer, sequence_length=24, stride=8)
    answerer = BertQuestionAnswerer(encoder(), windows)
    other = BertClassifier(encoder(), preprocessor, ["x", "z", "y"])
    wide = BertPretrainer(encoder(hidden_size=64), preprocessor)
    bio = ["O", "B-x", "I-x"]
    plain, other_words, crf, iob1 = (
        BertTokenClassifier(encoder(), preprocessor, labels, crf=each)
        for labels, each in ((bio, False), (bio[::-1], False), (bio, True), (bio, "IOB1"))
    )
    for each, learner, options, words in [
        (pretrained, student, {}, ["a BertClassifier", "a BertPretrainer"]),
        (answerer, answerer, {}, ["a BertQuestionAnswerer", "classifiers and pre-trainers"]),
        (teacher, student, {"temperature": 0}, ["temperature", 0, "above 0"]),
        (teacher, other, {}, ["teacher", ["x", "y", "z"], "student", ["x", "z", "y"]]),
        (wide, pretrained, {}, ["teacher", "hidden_size", 64, "student", 32]),
        (plain, other_words, {}, ["labels", "teacher", bio, "student", bio[::-1]]),
        (crf, plain, {}, ["teacher", "CRF", "student has none", "crf=True"]),
        (iob1, crf, {}, ["scheme", "teacher", "IOB1", "student", "BIO"]),
    ]:
        with error_names(ValueError, *words), learning_from(each, learner, **options):
            raise AssertionError
