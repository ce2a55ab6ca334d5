"""Multiple choice: answers, training, exports; and the heads of transformers' classes for it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertMultipleChoice
from keras_bert.saved_model import export_serving
from keras_bert.tasks.registry import Job
from keras_bert.training import evaluate, fine_tune, score

from ..support import small
from ..support.messages import error_names

QUESTIONS = ["she loved the film", "he was cold", "the bank", "it was dull"]
CHOICES = [["good", "bad plot", "the river"], ["warm", "cold cold", "love"], ["river", "money", "time"], [*"abc"]]
COLUMNS = (QUESTIONS, *map(list, zip(*CHOICES, strict=True)))


@pytest.fixture(scope="module")
def model():
    return small.task(BertMultipleChoice)


def pair_logits(model, question, choices):
    return np.array([model(model.preprocessor(([question], [choice]))).numpy()[0, 0] for choice in choices])


def test_the_best_choice_has_the_highest_logit(model):
    answers = model.choose(QUESTIONS, CHOICES)
    for question, choices, answer in zip(QUESTIONS, CHOICES, answers, strict=True):
        logits = pair_logits(model, question, choices)
        expected = np.exp(logits) / np.exp(logits).sum()
        np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)
        assert (answer["index"], answer["text"]) == (logits.argmax(), choices[logits.argmax()])
        assert answer["probability"] == answer["probabilities"][answer["index"]]
    assert len({answer["index"] for answer in answers}) > 1
    longer = model.choose(QUESTIONS[:2], [CHOICES[0], CHOICES[1][:2]])
    assert [len(answer["probabilities"]) for answer in longer] == [3, 2]


@pytest.mark.slow
def test_columns_have_the_logits_of_their_choices(model):
    expected = [pair_logits(model, *each) for each in zip(QUESTIONS, CHOICES, strict=True)]
    np.testing.assert_allclose(model(COLUMNS), expected, atol=1e-5)
    np.testing.assert_allclose(model.predict(COLUMNS, verbose=0), expected, atol=1e-5)


@pytest.mark.parametrize(("call", "words"), [
    (lambda model: model.choose("a", "b"), ("choices", "str")),
    (lambda model: model.choose(["a", "b"], [["c"]]), ("2 questions", "1 list of choices")),
    (lambda model: model.choose(["a", "b"], [["c"], []]), ("question 1", "no choices")),
    (lambda model: model(["a"]), ("tuple", "choices")),
    (lambda model: fine_tune(model, (COLUMNS[:2], [0] * 4), progress=False), ("tuple", "choices")),
    (lambda model: fine_tune(model, (COLUMNS, [0, 1, 3, 0]), progress=False), ("label 2", "3", "0 to 2")),
    (lambda model: evaluate(model, COLUMNS, [0, 1, -1, 0]), ("labels", "-1", "number of the right choice")),
    (lambda model: evaluate(model, COLUMNS, ["a"] * 4), ("labels", "numbers", "'a'")),
    (lambda model: evaluate(model, COLUMNS, [0]), ("4", "1 label")),
    (lambda _: Job("choose", "a.csv", None, {"choice_columns": ["a"]}), ("choice_columns", "two")),
])  # fmt: skip
def test_what_it_cannot_read_is_refused(model, call, words):
    with error_names((TypeError, ValueError), *words):
        call(model)


def test_measures(model):
    chosen = [answer["index"] for answer in model.choose(QUESTIONS, CHOICES)]
    found = score(model, COLUMNS, [(chosen[0] + 1) % 3, *chosen[1:]])
    assert (found.measures, found.mistakes, found.worst) == ({"accuracy": 0.75}, [0], [0])


@pytest.mark.slow
def test_it_learns_which_choice_is_right():
    model = small.task(BertMultipleChoice, scale=0.1)
    labels = [2, 0, 1, 1]
    history = fine_tune(model, (COLUMNS, labels), epochs=30, batch_size=2, learning_rate=3e-3, progress=False)
    assert history[-1]["loss"] < 0.3 < history[0]["loss"]
    assert [answer["index"] for answer in model.choose(QUESTIONS, CHOICES)] == labels
    model.compile(keras.optimizers.SGD(0.0), model.training_loss())
    expected = -np.log([answer["probabilities"][i] for answer, i in zip(model.answers(COLUMNS), labels, strict=True)])
    assert model.evaluate(COLUMNS, labels, verbose=0) == pytest.approx(expected.mean(), rel=1e-3)


@pytest.mark.slow
def test_serving(model, tmp_path):
    expected = model(COLUMNS).numpy()
    version = export_serving(model, tmp_path)
    served = tf.saved_model.load(version).signatures["serving_default"]
    pairs = [(question, choice) for question, choices in zip(QUESTIONS, CHOICES, strict=True) for choice in choices]
    questions, choices = map(tf.constant, zip(*pairs, strict=True))
    np.testing.assert_allclose(served(question=questions, choice=choices)["logit"], expected.ravel(), atol=1e-4)
    packed = model.preprocessor((questions, choices))
    np.testing.assert_allclose(model.serve_packed(packed)["logits"][:, 0], expected.ravel(), atol=1e-4)


# Family -> its options beside the sizes.
_DEBERTA = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False}
_DEBERTA |= {"position_buckets": 8, "share_att_key": True, "norm_rel_ebd": "layer_norm", "type_vocab_size": 0}
FAMILIES = {
    **{family: {} for family in ("bert", "roberta", "distilbert", "mpnet")},
    **{family: {"embedding_size": 16} for family in ("albert", "electra")},
    "deberta-v2": {**_DEBERTA, "pooler_hidden_size": 32, "max_relative_positions": -1},
    "modernbert": {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3},
}


@pytest.mark.parity
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_transformers(family, tmp_path):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "num_hidden_layers": 2}
    if family == "distilbert":
        sizes = {"dim": 32, "n_heads": 4, "hidden_dim": 64, "n_layers": 2}
    sizes |= {"vocab_size": len(small.VOCABULARY), "max_position_embeddings": 64, **FAMILIES[family]}
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, **sizes)
    theirs = transformers.AutoModelForMultipleChoice.from_config(config).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    theirs.save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(small.VOCABULARY))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer", "do_lower_case": true}')
    ours = BertMultipleChoice.from_preset(tmp_path)
    ids = np.random.default_rng(0).integers(5, len(small.VOCABULARY), (4, 3, 10))
    ids[:, :, 0] = 2
    mask = np.ones_like(ids)
    mask[1, 2, 7:] = 0
    ids[mask == 0] = config.pad_token_id
    packed = {"input_word_ids": ids, "input_mask": mask, "input_type_ids": 0 * ids}
    packed = {name: tf.constant(each, tf.int32) for name, each in packed.items()}

    def logits(model):
        with torch.no_grad():
            return model(input_ids=torch.tensor(ids), attention_mask=torch.tensor(mask)).logits.numpy()

    expected = logits(theirs)
    np.testing.assert_allclose(ours(packed), expected, atol=2e-4)
    ours.save_preset(tmp_path / "ours")
    again = transformers.AutoModelForMultipleChoice.from_pretrained(tmp_path / "ours").eval()
    np.testing.assert_allclose(logits(again), expected, atol=2e-4)
