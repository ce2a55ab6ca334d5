"""What is said of each token, for each kind of tokenizer: each byte is in one of them."""

import unicodedata

import numpy as np
import pytest

from keras_bert import BertPreprocessor
from keras_bert.text import WordPieceTokenizer
from keras_bert.text.explanation import ExplainedToken, explain

from ..support import small
from ..support.texts import SENTENCES

TEXTS = ["", " ", "a", "Cafés?", "tabs\tand\nlines", "½ ﬁn 東京 🦒🏽 e\u0301", *SENTENCES[5:7], *SENTENCES[-3:]]


@pytest.mark.parametrize("are_pairs", [False, True], ids=["texts", "pairs"])
def test_tokens_are_what_the_model_sees(any_tokenizer, are_pairs, untraced):
    texts = (TEXTS, TEXTS[::-1]) if are_pairs else (TEXTS,)
    preprocessor = BertPreprocessor(any_tokenizer, sequence_length=None, max_sequence_length=2048)
    packed = preprocessor(texts if are_pairs else TEXTS)
    for row, tokens in enumerate(explain(any_tokenizer, *texts)):
        tokens = [token for token in tokens if token.token is not None]
        ids, mask, types = (np.asarray(packed[f"input_{name}"])[row] for name in ("word_ids", "mask", "type_ids"))
        assert [token.id for token in tokens] == ids[: mask.sum()].tolist()
        assert [token.type_id for token in tokens] == types[: mask.sum()].tolist()
        assert [token.position for token in tokens] == list(range(len(tokens)))
        assert [token.token for token in tokens] == [any_tokenizer.vocabulary[token.id] for token in tokens]


def test_places_of_a_pair_are_those_in_each_text(tokenizer, untraced):
    """Dropped characters, too."""
    (row,) = explain(tokenizer, ["x\u200b"], ["Thé y"])
    first, second = (explain(tokenizer, [text])[0][1:-1] for text in ("x\u200b", "Thé y"))
    inside = [token for token in row if token.byte_span is not None]
    assert [token.byte_span for token in inside] == [token.byte_span for token in (*first, *second)]
    assert [token.text for token in inside] == ["x", "\u200b", "Thé", "y"]


def test_spans_are_those_of_the_tokenizer_and_hold_all_of_the_text(any_tokenizer, untraced):
    _, starts, ends = (each.to_list() for each in any_tokenizer.tokenize_with_offsets(TEXTS))
    for row, (text, tokens) in enumerate(zip(TEXTS, explain(any_tokenizer, TEXTS), strict=True)):
        first, *inside, last = tokens
        assert {first.byte_span, last.byte_span, first.character_span, last.character_span} == {None}
        spans = [token.byte_span for token in inside if token.token is not None]
        assert spans == list(zip(starts[row], ends[row], strict=True))
        covered = set()
        for token in inside:
            start, end = token.character_span
            assert token.text == text[start:end]
            if token.byte_span[0] < token.byte_span[1]:
                before, upto = len(text[:start].encode()), len(text[:end].encode())
                assert before <= token.byte_span[0] < token.byte_span[1] <= upto
            covered.update(range(start, end))
        assert all(unicodedata.category(text[i])[0] in "ZC" for i in set(range(len(text))) - covered)


def test_an_unknown_token_in_the_text_is_itself(untraced):
    tokenizer = small.tokenizer(special_tokens_in_text=True)
    assert [token.changes for token in of_text(tokenizer, "film [UNK] Ω")] == [(), (), ("not in the vocabulary",)]


def of_text(tokenizer, text):
    return explain(tokenizer, [text])[0][1:-1]


def test_changes_of_wordpiece(untraced):
    expected = {
        "cafe": [()],
        "CAFÉ": [("C -> c", "A -> a", "F -> f", "É -> e")],
        "cafe\u0301": [("e\u0301 -> e",)],
        "Ca\u200bfe": [("U+200B dropped", "C -> c")],
        "\u200bcafe\x07": [("U+200B dropped",), (), ("U+0007 dropped",)],
        "a \t\u3000 b": [(), ()],
        "🦒": [("not in the vocabulary",)],
    }
    explained = explain(WordPieceTokenizer([*small.SPECIAL, "cafe", "a", "b"]), [*expected])
    assert {
        text: [each.changes for each in row[1:-1]] for text, row in zip(expected, explained, strict=True)
    } == expected


def test_dropped_characters_stand_where_they_stood(tokenizer, untraced):
    token, dropped = of_text(tokenizer, "é\x07")
    assert (token.token, token.byte_span, token.character_span) == ("e", (0, 2), (0, 1))
    assert dropped == ExplainedToken(None, None, None, None, (2, 3), (1, 2), "\x07", ("U+0007 dropped",))


def test_bytes_within_a_character(untraced):
    tokens = of_text(small.byte_pairs([]), "é a")
    assert [(token.byte_span, token.character_span, token.text) for token in tokens[:2]] == [
        ((0, 1), (0, 1), "é"),
        ((1, 2), (0, 1), "é"),
    ]
    assert {token.changes for token in tokens} == {()}


def test_no_texts(tokenizer):
    assert explain(tokenizer, []) == []
