"""The model card: replaced until somebody edits it; the licence of the model that a run began with."""

import pytest

from keras_bert import BertConfig
from keras_bert.formats import model_card

CONFIG = BertConfig.named("bert-tiny")


def test_a_card_is_replaced_until_it_is_edited(tmp_path):
    path = tmp_path / "README.md"
    model_card.write(tmp_path, CONFIG, {"sequence"}, task="BertClassifier", labels=["a", "b"])
    first = path.read_text()
    assert "| labels | a, b |" in first
    training = model_card.Training(measures={"accuracy": 0.25}, settings={"training data": "9 examples of a.tsv"})
    model_card.write(tmp_path, CONFIG, {"sequence"}, task="BertClassifier", labels=["c", "d"], training=training)
    second = path.read_text()
    assert "| labels | c, d |" in second
    assert "| accuracy | 0.2500 |" in second
    assert "| training data | 9 examples of a.tsv |" in second
    for edited in (second.replace("accuracy", "exactness"), "mine", first + "mine\n"):
        path.write_text(edited)
        model_card.write(tmp_path, CONFIG, {"sequence"}, task="BertClassifier", labels=["e", "f"])
        assert path.read_text() == edited


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ("---\nlanguage: en\nlicense: apache-2.0\ntags:\n- a\n---\n\n# A\n", "apache-2.0"),
        ("---\nlicense: 'mit'\n---\n", "mit"),
        ("---\nlanguage: en\n---\n\nlicense: mit\n\n---\n", None),
        ("license: mit\n", None),
        (None, None),
    ],
)
def test_the_licence_of_the_base(tmp_path, card, licence):
    if card is not None:
        (tmp_path / "README.md").write_text(card)
    assert model_card.licence_of(tmp_path) == licence
    output = tmp_path / "output"
    model_card.write(output, CONFIG, (), licence=model_card.licence_of(tmp_path))
    assert model_card.licence_of(output) == licence
