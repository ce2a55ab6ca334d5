"""The tasks beside those of transformers: the same numbers from the same files, and what we save, it reads."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertPreprocessor, BertQuestionAnswerer, BertTokenClassifier
from keras_bert.data import Answer
from keras_bert.tasks import BertMaskedLM, BertNextSentence

from ..support import small

pytestmark = pytest.mark.parity
torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
FAMILIES = ["bert", "roberta", "albert"]  # of each kind of tokenizer; tests/contract has the heads of all
LABELS = ["O", "B-X", "I-X"]
PAIRS = (["The film was good.", "", "She loved it", "the bank"], ["It was very good!", "plot", "", "He hated it."])
SQUAD_CONTEXT = (
    "The Normans (Norman: Nourmands; French: Normands; Latin: Normanni) were the people who in the 10th and 11th "
    "centuries gave their name to Normandy, a region in France. They were descended from Norse raiders and pirates "
    "from Denmark, Iceland and Norway who, under their leader Rollo, agreed to swear fealty to King Charles III of "
    "West Francia. Through generations of assimilation and mixing with the native Frankish and Roman-Gaulish "
    "populations, their descendants would gradually merge with the Carolingian-based cultures of West Francia."
)


@pytest.fixture
def theirs(real_tokenizer, tmp_path):
    """A function that makes one of their models, with random weights, saved in `tmp_path` beside its tokenizer."""

    def make(family, model, std=0.3, **settings):
        tokenizer = real_tokenizer(family)
        tokenizer.save_preset(tmp_path)
        sizes = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "num_hidden_layers": 2}
        special = {"pad_token_id": tokenizer.pad_token_id, "vocab_size": tokenizer.vocabulary_size}
        config = transformers.AutoConfig.for_model(family, **sizes, **special)
        for name, value in settings.items():
            setattr(config, name, value)
        torch.manual_seed(0)
        kind = getattr(transformers, model)
        made = (kind.from_config(config) if hasattr(kind, "from_config") else kind(config)).eval()
        for parameter in made.parameters():
            torch.nn.init.normal_(parameter, std=std)
        made.save_pretrained(tmp_path)
        return made

    return make


def as_theirs(packed):
    names = {"input_ids": "input_word_ids", "attention_mask": "input_mask", "token_type_ids": "input_type_ids"}
    return {name: torch.tensor(packed[ours].numpy()) for name, ours in names.items()}


def test_a_roberta_with_a_pooler(tmp_path):
    model = small.task(BertClassifier, LABELS, config={"family": "roberta", "positions_after_padding": True})
    model.save_preset(tmp_path)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    packed = model.preprocessor(small.TEXTS)
    with torch.no_grad():
        logits = theirs(**as_theirs(packed)).logits
    np.testing.assert_allclose(model(packed), logits, atol=1e-4)


# -- Masks


def test_fill(shared_data):
    directory = shared_data / "bert-tiny-mlm"
    texts = ["The capital of France is [MASK].", "[MASK] was Born in Paris", "He [MASK]ed, naïvely: 😀", "[MASK]"]
    theirs = transformers.pipeline("fill-mask", model=str(directory), top_k=7)
    ours = BertMaskedLM.from_preset(directory)
    for text, answer in zip(texts, ours.fill(texts, top_k=7), strict=True):
        want = theirs(text)
        assert [each["token"] for each in answer["masks"][0]] == [each["token_str"] for each in want]
        got = [each["probability"] for each in answer["masks"][0]]
        np.testing.assert_allclose(got, [each["score"] for each in want], rtol=1e-4)


@pytest.mark.parametrize("family", ["roberta", "albert"])
def test_fill_of_other_families(family, theirs, real_tokenizer, tmp_path):
    model = theirs(family, "AutoModelForMaskedLM", std=0.2)
    mask = real_tokenizer(family).special_tokens["mask_token"]
    texts = [f"The capital of France is {mask}.", f"{mask} was Born in Paris", f"He {mask}ed, naïvely: 😀"]
    auto = transformers.AutoTokenizer.from_pretrained(tmp_path)
    pipeline = transformers.pipeline("fill-mask", model=model, tokenizer=auto, top_k=5)
    for text, answer in zip(texts, BertMaskedLM.from_preset(tmp_path).fill(texts), strict=True):
        want = pipeline(text)
        got = [each["token"] for each in answer["masks"][0]]
        assert [token.strip() for token in got] == [each["token_str"].strip() for each in want]
        probabilities = [each["probability"] for each in answer["masks"][0]]
        np.testing.assert_allclose(probabilities, [each["score"] for each in want], rtol=1e-3)


# -- Next sentences


@pytest.mark.parametrize(("family", "head", "output"), [
    ("bert", "BertForNextSentencePrediction", "logits"),
    ("bert", "BertForPreTraining", "seq_relationship_logits"),
    ("albert", "AlbertForPreTraining", "sop_logits"),
])  # fmt: skip
def test_next_sentence(family, head, output, theirs, real_tokenizer, tmp_path):
    model = theirs(family, head, std=0.2)
    encoded = as_theirs(BertPreprocessor(real_tokenizer(family), None)(PAIRS))
    with torch.no_grad():
        # next_sentence_label and sentence_order_label, in the documentation of these classes: 0 is "follows".
        want = getattr(model(**encoded), output).softmax(-1)[:, 0].numpy()
    ours = BertNextSentence.from_preset(tmp_path)
    np.testing.assert_allclose(ours.score(*PAIRS), want, atol=1e-5)
    ours.save_preset(tmp_path / "ours")
    (named,) = json.loads((tmp_path / "ours" / "config.json").read_text())["architectures"]
    assert named == {"bert": "BertForNextSentencePrediction", "albert": "AlbertForPreTraining"}[family]
    again = getattr(transformers, named).from_pretrained(tmp_path / "ours").eval()
    encode = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    packed = encode(*PAIRS, padding=True, return_tensors="pt")
    assert all(packed[name].tolist() == each.tolist() for name, each in encoded.items())
    logits = {"bert": "logits", "albert": "sop_logits"}[family]
    with torch.no_grad():
        np.testing.assert_allclose(getattr(again(**packed), logits).softmax(-1)[:, 0], want, atol=1e-5)


# -- Labels of words


@pytest.mark.parametrize("family", FAMILIES)
def test_token_classifier(family, theirs, tmp_path):
    names = {"id2label": dict(enumerate(LABELS)), "label2id": {label: i for i, label in enumerate(LABELS)}}
    model = theirs(family, "AutoModelForTokenClassification", **names)
    ours = BertTokenClassifier.from_preset(tmp_path)
    words = ["Barack", "Obama", "saw", "unaffable", "naïveté", "in", "Paris", "."]
    ours.save_preset(tmp_path / "ours")
    again = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "ours").eval()
    assert again.config.id2label == dict(enumerate(LABELS))
    (answers,) = ours.tag([words])
    for each, directory in ((model, tmp_path), (again, tmp_path / "ours")):
        tokenizer = transformers.AutoTokenizer.from_pretrained(directory, add_prefix_space=True)
        encoded = tokenizer(words, is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            logits = each(**encoded).logits[0].numpy()
        numbers = encoded.word_ids(0)
        want = tf.nn.softmax(logits[[numbers.index(i) for i in range(len(words))]]).numpy()
        assert [answer["label"] for answer in answers] == [each.config.id2label[i] for i in want.argmax(-1)]
        np.testing.assert_allclose([answer["probability"] for answer in answers], want.max(-1), atol=2e-5)
        np.testing.assert_allclose(ours.predict([words], verbose=0)[0], logits, atol=2e-4, rtol=1e-5)


# -- Answers


@pytest.mark.parametrize("family", FAMILIES)
def test_question_answerer(family, theirs, tmp_path):
    model = theirs(family, "AutoModelForQuestionAnswering")
    ours = BertQuestionAnswerer.from_preset(tmp_path, sequence_length=64, stride=20)
    ours.save_preset(tmp_path / "ours")
    again = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path / "ours").eval()
    for each, directory in ((model, tmp_path), (again, tmp_path / "ours")):
        _answers_alike(each, transformers.AutoTokenizer.from_pretrained(directory), ours)


def _answers_alike(theirs, tokenizer, ours):
    question = "In what country is Normandy located?"
    asked = tokenizer(question, add_special_tokens=False)["input_ids"]
    room = 64 - len(asked) - ours.preprocessor.tokenizer.pair_format.special_tokens(2)
    cut = {"truncation": "only_second", "max_length": 64, "padding": "max_length", "return_overflowing_tokens": True}
    cut["stride"] = room - 20  # theirs is how many tokens two windows share
    encoded = tokenizer(question, SQUAD_CONTEXT, **cut, return_offsets_mapping=True, return_tensors="pt")
    places = encoded.pop("offset_mapping")
    encoded.pop("overflow_to_sample_mapping")
    packed = ours.preprocessor(([question], [SQUAD_CONTEXT]))
    np.testing.assert_array_equal(packed["input_word_ids"][0], encoded["input_ids"])
    np.testing.assert_array_equal(packed["input_mask"][0], encoded["attention_mask"])
    if "token_type_ids" in encoded:
        np.testing.assert_array_equal(packed["input_type_ids"][0], encoded["token_type_ids"])
    elif type(theirs).__name__.startswith("Albert"):  # whose tokenizer leaves them out
        encoded["token_type_ids"] = torch.tensor(packed["input_type_ids"][0].numpy())
    with torch.no_grad():
        output = theirs(**encoded)
    logits = np.stack([output.start_logits, output.end_logits], axis=-1)
    real = encoded["attention_mask"].numpy() > 0
    assert len(real) > 3
    np.testing.assert_allclose(ours(([question], [SQUAD_CONTEXT]))[0].numpy()[real], logits[real], atol=2e-4, rtol=1e-5)

    # Their loss, on targets that they find with their offsets; without padding, which they let an answer start in.
    answer = Answer("Denmark, Iceland and Norway", SQUAD_CONTEXT.index("Denmark"))
    end = answer.start + len(answer.text)
    x, y = ours.batch(*ours.examples(([question], [SQUAD_CONTEXT]), [[answer]])[:2])
    want = []
    for row in range(len(real)):
        context = [i for i, sequence in enumerate(encoded.sequence_ids(row)) if sequence == 1]
        inside = [i for i in context if places[row, i, 0] < end and places[row, i, 1] > answer.start]
        whole = places[row, context[0], 0] <= answer.start and places[row, context[-1], 1] >= end
        want.append([inside[0], inside[-1]] if inside and whole else [0, 0])
    assert y.numpy().tolist() == want
    assert len({tuple(row) for row in want}) > 2
    possible = (torch.where(encoded["attention_mask"] > 0, each, -torch.inf) for each in output[:2])
    loss = sum(map(torch.nn.functional.cross_entropy, possible, torch.tensor(want).T)) / 2
    assert float(ours.training_loss()(y, ours(x))) == pytest.approx(float(loss), rel=1e-4)
