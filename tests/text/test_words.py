"""find_words and tokenize_words: words of raw text by table, in the graph, and the tokens of words."""

import pytest
import tensorflow as tf

from keras_bert.text import BertPreprocessor, BytePairTokenizer, SentencePieceTokenizer, WordPieceTokenizer
from keras_bert.text.words import find_words

from ..support import small
from ..support.texts import SENTENCES

TABLE = {
    "": [],
    " \t\u3000\n": [],
    "Zoë (Paris)...": ["Zoë", "(", "Paris", ")", "..."],
    'He said: "don\'t"!?!': ["He", "said", ":", '"', "don't", '"', "!", "?", "!"],
    "U.S. 3.5% $40 a--b -- #tag": ["U.S", ".", "3.5", "%", "$", "40", "a--b", "--", "#", "tag"],
    "我爱北京, ok": ["我", "爱", "北", "京", ",", "ok"],
    "in北京town": ["in", "北", "京", "town"],
    "Paris❤️❤️ 👍🏽! e\u0301te\u0301.": ["Paris", "❤️❤️", "👍🏽", "!", "e\u0301te\u0301", "."],
    "👨\u200d👩\u200d👧": ["👨\u200d", "👩\u200d", "👧"],
    "\u0301x \u0301y": ["\u0301x", "\u0301y"],
    "葛\U000e0100城": ["葛\U000e0100", "城"],
    "\u200b a": ["\u200b", "a"],
    "\U00030000𝒳.": ["\U00030000𝒳", "."],
}


@pytest.mark.parametrize("text", TABLE, ids=ascii)
def test_table(text):
    words, starts, ends = (each[0].numpy().tolist() for each in find_words([text]))
    assert [word.decode() for word in words] == TABLE[text]
    assert [text[start:end] for start, end in zip(starts, ends, strict=True)] == TABLE[text]


def test_rows_do_not_touch():
    texts = [*TABLE, *SENTENCES[-4:], "", *reversed(TABLE)]
    together = [each.to_list() for each in find_words(texts)]
    alone = {text: [each.to_list()[0] for each in find_words([text])] for text in texts}
    assert [list(row) for row in zip(*together, strict=True)] == [alone[text] for text in texts]
    for text, words, starts, ends in zip(texts, *together, strict=True):
        assert [text[start:end].encode() for start, end in zip(starts, ends, strict=True)] == words
        assert "".join(word.decode() for word in words) == "".join(text.split())  # nothing but white space is lost


def test_in_a_graph():
    found = tf.function(find_words, input_signature=[tf.TensorSpec([None], tf.string)])
    for texts in (list(TABLE), [], [""]):
        for ours, theirs in zip(found(tf.constant(texts, tf.string)), find_words(texts), strict=True):
            assert ours.to_list() == theirs.to_list()


def test_every_word_has_tokens(tokenizer):
    words = tf.ragged.constant([["\u200b", "watching"], [], ["", "a b", " ", "\x07"]])
    tokens = tokenizer.tokenize_words(words).to_list()
    unknown = [tokenizer.unk_token_id]
    assert tokens[0] == [unknown, tokenizer.tokenize("watching").numpy().tolist()]
    assert tokens[1] == []
    assert tokens[2] == [unknown, tokenizer.tokenize("a b").numpy().tolist(), unknown, unknown]


def test_byte_pairs_have_their_space(untraced):
    merges = [("Ġ", "P"), ("a", "r"), ("ĠP", "ar"), ("i", "s"), ("ĠPar", "is"), ("Ġ", ",")]
    for prefix in (False, True):
        tokenizer = small.byte_pairs(merges, add_prefix_space=prefix)
        words = tf.constant([["Paris", " Paris", ",", ""]])
        tokens = tokenizer.tokenize_words(tf.RaggedTensor.from_tensor(words)).to_list()[0]
        named = [[tokenizer.vocabulary[i] for i in word] for word in tokens]
        assert named == [["ĠParis"], ["ĠParis"], ["Ġ,"], ["<unk>"]]


WORDS = ["Barack", "(", ",", "naïve", "日本語", "😀", "don't", "U.S.", "1,000", "Unaffable", "New York", "e\u0301", "½"]
WORDS += ["\u200b", "Ünïcödé", "#tag", "@me", "http://a.b/c?d", "...", "ﬁn", "Москва", "तमिल", "a" * 80, " lead", "x"]


@pytest.mark.parity
@pytest.mark.parametrize("kind", ["uncased", "multi_cased", "chinese", "roberta", "albert"])
def test_tokens_are_those_of_transformers(shared_data, kind, tmp_path):
    transformers = pytest.importorskip("transformers")
    vocabs = shared_data / "vocabs"
    more = {}
    if kind == "roberta":
        ours = BytePairTokenizer(vocabs / "roberta_vocab.json", vocabs / "roberta_merges.txt")
        more = {"add_prefix_space": True}  # as transformers' own run_ner.py sets it
    elif kind == "albert":
        ours = SentencePieceTokenizer(vocabs / "albert_spiece.model")
    else:
        ours = WordPieceTokenizer(vocabs / f"bert_{kind}_vocab.txt", lowercase=kind != "multi_cased")
    BertPreprocessor(ours).save_preset(tmp_path)
    names = {"roberta": "RobertaConfig", "albert": "AlbertConfig"}
    getattr(transformers, names.get(kind, "BertConfig"))().save_pretrained(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, **more)
    tokens = ours.tokenize_words(tf.ragged.constant([WORDS])).to_list()[0]
    encoded = theirs([WORDS], is_split_into_words=True)
    want = [[] for _ in WORDS]
    for word, i in zip(encoded.word_ids(0), encoded["input_ids"][0], strict=True):
        if word is not None:
            want[word].append(i)
    assert sum(not each for each in want) <= 1  # the zero-width space, which is the unknown token here
    assert tokens == [each or [ours.unk_token_id] for each in want]
    known = [word for word, each in zip(WORDS, want, strict=True) if each]
    preprocessor = BertPreprocessor(ours, sequence_length=None, max_sequence_length=10**4)
    packed = preprocessor.pack(ours.tokenize_words(tf.ragged.constant([known])).merge_dims(1, 2))
    assert packed["input_word_ids"][0].numpy().tolist() == encoded["input_ids"][0]
