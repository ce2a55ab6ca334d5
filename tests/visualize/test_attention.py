"""What a page and a picture hold: the weights of `attention_scores`, and texts that do nothing."""

import base64
import hashlib
import html
import json
import re
import struct
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from keras_bert import BertPreprocessor
from keras_bert.visualize import AttentionView, attention
from keras_bert.visualize.attention_weights import AttentionWeights, clearest_head, compute_weights
from keras_bert.visualize.page import page

from ..support import small
from ..support.messages import error_names

pytestmark = pytest.mark.usefixtures("untraced_module")


@pytest.fixture(scope="module")
def encoder():
    return small.encoder(max_positions=16)


@pytest.fixture(scope="module")
def preprocessor():
    return small.preprocessor(sequence_length=8, max_sequence_length=16)


class Scripts(HTMLParser):
    """The contents of a page's scripts and style sheets, by their attributes, and its policy."""

    def __init__(self, source):
        super().__init__()
        self.found, self.policy, self._inside = [], None, None
        self.feed(source)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]
        self._inside = (tag, attributes) if tag in ("script", "style") else None

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside:
            self.found.append((*self._inside, data))


def read(source):
    """What a page says, and the numbers in it."""
    scripts = {attributes.get("id"): text for _, attributes, text in Scripts(source).found}
    data = json.loads(scripts["page"])
    size = len(data["tokens"])

    def numbers(name, columns):
        layers = [np.frombuffer(base64.b64decode(scripts[f"{name}-{i}"]), "<f2") for i in range(data["layers"])]
        return np.stack(layers).reshape(data["layers"], data["heads"], size, columns).astype(np.float32)

    return data, numbers("weights", size), numbers("queries", data["headSize"]), numbers("keys", data["headSize"])


FILMS = "the film ##s s ##a ##t [SEP]"


@pytest.mark.parametrize(
    ("texts", "tokens"),
    [
        (("the films sat", "the film"), f"[CLS] {FILMS} the film [SEP]"),
        pytest.param(("the films sat",), f"[CLS] {FILMS}", marks=pytest.mark.slow),
        pytest.param(("", ""), "[CLS] [SEP] [SEP]", marks=pytest.mark.slow),
    ],
)
def test_numbers_are_those_of_attention_scores(encoder, preprocessor, texts, tokens):
    data, numbers, queries, keys = read(attention(encoder, preprocessor, *texts).rendered("a.html").decode())
    tokens = tokens.split()
    second = tokens.index("[SEP]") + 1 if len(texts) == 2 else len(tokens)
    ids = np.array([[small.VOCABULARY.index(token) for token in tokens]])
    types = np.array([[int(place >= second) for place in range(len(tokens))]])
    inputs = {"input_word_ids": ids, "input_mask": np.ones_like(ids), "input_type_ids": types}
    expected = np.stack(encoder.attention_scores(inputs))[:, 0]
    assert expected.max() > 0.5
    np.testing.assert_allclose(numbers, expected, rtol=0, atol=5e-4)
    weights = compute_weights(encoder, preprocessor, *texts)
    np.testing.assert_allclose(queries, weights.queries, rtol=2**-11, atol=1e-7)
    np.testing.assert_allclose(keys, weights.keys, rtol=2**-11, atol=1e-7)
    assert (data["tokens"], data["texts"]) == (tokens, list(texts))
    assert data["second"] == (second if len(texts) == 2 else None)


def test_nothing_is_cut(encoder, preprocessor):
    assert len(compute_weights(encoder, preprocessor, "the film " * 7).tokens) == 16  # in spite of sequence_length=8
    with error_names(ValueError, "17 tokens", "2 special tokens", "16 positions", "shorter text"):
        attention(encoder, preprocessor, "the films " * 5)
    with error_names(ValueError, "19 tokens", "3 special tokens", "16 positions"):
        attention(encoder, preprocessor, "the film " * 4, "the film " * 4)


@pytest.mark.slow
def test_second_text_of_a_family_with_two_separators():
    tokenizer = small.byte_pairs([])
    encoder = small.encoder(vocab_size=tokenizer.vocabulary_size, num_layers=1)
    weights = compute_weights(encoder, BertPreprocessor(tokenizer, sequence_length=16), "a", "bc")
    assert weights.tokens == ["<s>", "a", "</s>", "</s>", "b", "c", "</s>"]
    assert weights.second == 4


def test_what_is_no_text_is_refused(encoder, preprocessor):
    for text in (["a"], None, b"a"):
        with error_names(TypeError, "text", type(text).__name__, "expected a str"):
            attention(encoder, preprocessor, text)


def test_texts_are_only_texts(weights):
    source = page(weights, 0, 0)
    data, *_ = read(source)
    assert (data["texts"], data["tokens"]) == (list(weights.texts), weights.tokens)
    found = Scripts(source).found
    kinds = [attributes.get("type") for tag, attributes, _ in found if tag == "script"]
    assert kinds == ["application/json", *["text/plain"] * 6, None]
    title = re.search("<title>(.*?)</title>", source)[1]
    assert "<" not in title
    assert html.unescape(title).startswith('Attention: say "a" <script>')


def test_the_policy_allows_the_page_alone(weights):
    scripts = Scripts(page(weights, 0, 0))
    (style,) = [text for tag, _, text in scripts.found if tag == "style"]
    (script,) = [text for tag, attributes, text in scripts.found if tag == "script" and not attributes]
    policy = dict(rule.split(maxsplit=1) for rule in scripts.policy.split("; "))
    assert policy["default-src"] == "'none'"
    for name, source in {"style-src": style, "script-src": script}.items():
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert policy[name] == f"'sha256-{digest}'"
    for addressed in ("http:", "https:", "url(", "@import", "fetch(", "innerHTML", "eval("):
        assert addressed not in style + script


@pytest.mark.slow
def test_size_of_bert_base():
    vectors = np.zeros((2, 12, 12, 128, 64), np.float32)
    weights = AttentionWeights(("a", "b"), ["a"] * 128, 64, np.full((12, 12, 128, 128), 1 / 128, np.float32), *vectors)
    assert len(page(weights, 0, 0)) < 12.8e6


def test_save(weights, tmp_path):
    view, path = AttentionView(weights), tmp_path / "new" / "attention.html"
    view.save(path, layer=1, head=7)
    data, *_ = read(path.read_text(encoding="utf-8"))
    assert (data["layer"], data["head"]) == (1, 7)
    with error_names(FileExistsError, "attention.html", "overwrite"):
        view.save(path)
    view.save(str(path), overwrite=True)
    assert path.read_bytes() == view.rendered("other.HTML")
    assert [file.name for file in path.parent.iterdir()] == ["attention.html"]


def test_a_page_opens_on_the_clearest_head(weights, tmp_path):
    """Of the large weights, two of head 3 are between different words, one of heads 1, 2, 4, 5, and none of head 0."""
    weights.weights[1, 4, 1, 3] = 0.3
    path = tmp_path / "attention.html"
    for chosen, shown in (
        ({}, (0, 3)),
        ({"layer": 1}, (1, 3)),
        ({"head": 4}, (1, 4)),
        ({"layer": 0, "head": 6}, (0, 6)),
    ):
        AttentionView(weights).save(path, **chosen, overwrite=True)
        data, *_ = read(path.read_text(encoding="utf-8"))
        assert (data["layer"], data["head"]) == shown
    nothing = weights._replace(tokens=["[CLS]", "[SEP]"], weights=np.full((2, 2, 2, 2), 0.5))
    assert clearest_head(nothing) == (0, 0)


def test_the_clearest_head_does_not_attend_to_the_token_before():
    """Head 0 attends to the token before, 1 to that after, 2 to itself, 3 to [CLS]; of head 4, one word to another."""
    tokens = ["[CLS]", "the", "cat", "sat", "down", "[SEP]"]
    weights = np.stack([np.eye(6, k=-1), np.eye(6, k=1), np.eye(6), np.zeros((6, 6)), np.eye(6, k=-1)])[None]
    weights[0, 3, :, 0] = 1
    weights[0, 4, 4] = [0, 0, 0.6, 0.4, 0, 0]  # "down" attends to "cat"
    whole = AttentionWeights(("the cat sat down",), tokens, None, weights, *np.zeros((2, 1, 5, 6, 2)))
    assert clearest_head(whole) == (0, 4)
    two = whole._replace(tokens=["[CLS]", "the", "cat", "[SEP]"], weights=weights[:, :, :4, :4])
    assert clearest_head(two) == (0, 0)  # two words are neighbours: there is nothing else


def test_a_file_or_head_that_cannot_be_shown_is_refused(weights, tmp_path):
    view = AttentionView(weights)
    for name, settings, words in [
        ("attention.pdf", {}, [".html", ".png"]),
        ("attention", {}, [".html", ".png"]),
        ("html", {}, [".html", ".png"]),
        ("a.html", {"layer": 2}, ["layer is 2", "0 to 1"]),
        ("a.html", {"head": -1}, ["head is -1", "0 to 9"]),
    ]:
        with error_names(ValueError, *words):
            view.save(tmp_path / name, **settings)
    assert not list(tmp_path.iterdir())


def test_notebook(weights):
    shown = AttentionView(weights)._repr_html_()
    (source,) = re.findall('<iframe srcdoc="([^"]*)" sandbox="allow-scripts" ', shown)
    assert html.unescape(source) == page(weights, 0, 3)


@pytest.mark.parametrize("chosen", [{"layer": 1}, {"layer": 1, "head": 3}])
@pytest.mark.filterwarnings("ignore:Glyph")
def test_picture(weights, tmp_path, chosen):
    pytest.importorskip("matplotlib")
    weights = weights._replace(tokens=["[CLS]", "$x_", "$", r"$\frac$", "😀", "[SEP]"])
    AttentionView(weights).save(tmp_path / "a.png", **chosen)
    data = (tmp_path / "a.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", data[16:24])
    assert width >= 600
    assert height >= 400


def test_picture_without_matplotlib(weights, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with error_names(ImportError, "matplotlib", "pip install"):
        AttentionView(weights).save(tmp_path / "a.png")


LOCAL = {"rope_theta": 100.0, "global_every": 2, "local_window": 4}


@pytest.mark.parametrize("changes", [{}, LOCAL, {"relative_buckets": 8}, {"disentangled_buckets": 4}])
def test_a_page_says_what_scores_are_made_of(changes):
    found = compute_weights(small.encoder(**changes), small.preprocessor(), "the very good film", "not bad")
    scores = np.einsum("lhqd,lhkd->lhqk", found.queries, found.keys) / np.sqrt(found.queries.shape[-1])
    scores += 0 if found.added is None else found.added
    places = np.arange(len(found.tokens))
    for layer, half_window in zip(scores, found.half_windows, strict=True):
        if half_window is not None:
            layer[:, np.abs(places[:, None] - places) > half_window] = -np.inf
    shares = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(found.weights, shares, rtol=0, atol=1e-5)
    assert found.half_windows == ((None, 2) if changes is LOCAL else (None, None))
    has_added = changes not in ({}, LOCAL)
    assert (found.added is not None) == has_added
    content = page(found, 0, 0)
    assert f'"halfWindows": [null, {2 if changes is LOCAL else "null"}' in content
    assert f'"hasAdded": {str(has_added).lower()}' in content
    assert ('id="added-1"' in content) == has_added
