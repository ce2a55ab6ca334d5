"""What the pages in docs/migration/ make of other libraries' files computes the same (that they run: test_docs.py)."""

import re

import numpy as np
import pytest

from keras_bert import BertClassifier
from keras_bert.text import WordPieceTokenizer

from .support import old_models
from .support.data import ROOT

PAGES = ROOT / "docs" / "migration"
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "fine", "film", "two", "hour", "##s", "that", "end"]
TEXTS = ["a fine film", "two hours that never end", ""]


def blocks(page, fence):
    return re.findall(rf"^```{fence}\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def converted(page, mark, tmp_path, monkeypatch):
    """The classifier of the page's block, which has `mark` in it, that rewrites a checkpoint of another library."""
    monkeypatch.chdir(tmp_path)
    (block,) = (
        block for fence in ("python", "{code-block} python") for block in blocks(PAGES / page, fence) if mark in block
    )
    namespace = {"BertClassifier": BertClassifier, "WordPieceTokenizer": WordPieceTokenizer}
    exec(compile(block, page, "exec"), namespace)
    return namespace["model"]


@pytest.mark.parity
def test_keras_hubs_classifier(tmp_path, monkeypatch):
    models = pytest.importorskip("keras_hub").models
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY))
    backbone = models.BertBackbone(
        vocabulary_size=len(VOCABULARY), num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16
    )
    tokenizer = models.BertTokenizer(vocabulary=str(tmp_path / "vocab.txt"), lowercase=True)
    preprocessor = models.BertTextClassifierPreprocessor(tokenizer, sequence_length=16)
    theirs = models.BertTextClassifier(backbone=backbone, preprocessor=preprocessor, num_classes=2)
    randomize(theirs.weights)
    theirs.save_to_preset(str(tmp_path / "classifier"))
    expected = theirs.predict(TEXTS, verbose=0)
    ours = converted("keras-hub.md", 'from_preset("classifier", labels', tmp_path, monkeypatch)
    for model in (ours, BertClassifier.from_preset("converted")):
        np.testing.assert_allclose(model(TEXTS), expected, rtol=0, atol=1e-5)
        assert model.labels == ["bad", "good"]


@pytest.mark.parity
def test_model_gardens_classifier(tmp_path, monkeypatch):
    nlp = pytest.importorskip("official.nlp.modeling")
    import tensorflow as tf

    WordPieceTokenizer(VOCABULARY).save_preset(tmp_path / "tokenizer")
    encoder = nlp.networks.BertEncoder(
        vocab_size=len(VOCABULARY),
        num_layers=2,
        num_attention_heads=2,
        hidden_size=8,
        intermediate_size=16,
        dict_outputs=True,
    )
    theirs = nlp.models.BertClassifier(encoder, num_classes=2)
    randomize(theirs.weights)
    tf.train.Checkpoint(model=theirs).write(str(tmp_path / "garden/bert_model.ckpt"))
    vocabulary = str(tmp_path / "tokenizer/vocab.txt")
    tokenize = nlp.layers.FastWordpieceBertTokenizer(vocab_file=vocabulary, lower_case=True)
    pack = nlp.layers.BertPackInputs(seq_length=16, special_tokens_dict=tokenize.get_special_tokens_dict())
    expected = theirs(pack(tokenize(tf.constant(TEXTS))))
    ours = converted("model-garden.md", "open_checkpoint", tmp_path, monkeypatch)
    np.testing.assert_allclose(ours(TEXTS), expected, rtol=0, atol=1e-5)


@pytest.mark.parity
def test_lines_of_transformers_tensorflow_classes(reader):
    """The PyTorch classes have the lines of the TensorFlow classes, which are gone: both cells of a row are equal."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    old_models.write(reader)
    page, theirs, ours = PAGES / "tensorflow-models.md", {}, {}
    for block in blocks(page, "{code-block} python"):
        if "old-bert" in block:
            block = re.sub(r"\bTF(?=Auto|Bert)|, framework=\"tf\"", "", block).replace('"tf"', '"pt"')
            block = re.sub(r"(AutoModel.from_pretrained\([^)]*)", r'\1, attn_implementation="eager"', block)
            exec(compile(block, page.name, "exec"), theirs)
    old_models.rewrite(reader)
    for block in blocks(page, "python"):
        if "old-bert" in block and "fine_tune" not in block:
            exec(compile(block, page.name, "exec"), ours)
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|$", page.read_text("utf-8"), re.MULTILINE)
    with torch.no_grad():
        for left, right in rows:
            assert equal(eval(left, theirs), eval(right, ours)), f"{left} differs from {right}"
    assert len(rows) > 30


def equal(one, other):
    """Whether two values are the same, numbers within 1e-5."""
    if isinstance(one, str | dict):
        return one == other
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return np.shape(one) == np.shape(other) and np.allclose(one, other, rtol=0, atol=1e-5)


def randomize(weights):
    generator = np.random.default_rng(0)
    for weight in weights:
        if "seed" not in weight.name:
            weight.assign(generator.normal(size=weight.shape) * 0.5)
