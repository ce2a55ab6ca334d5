"""learn_vocabulary on a book: other libraries find in texts what the tokenizer finds, and learn much the same."""

import pytest

from keras_bert.text import learn_vocabulary

from ..support.learning import OTHER, bytepair_of_hugging_face, compare, wordpiece_of_hugging_face
from ..support.reference import wordpiece as reference
from ..support.texts import SENTENCES
from ..support.tokenization import albert_pieces

tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers, which learns")
sentencepiece = pytest.importorskip("sentencepiece", reason="needs sentencepiece, which learns")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def book(shared_data):
    return (shared_data / "gutenberg/Alice-s-Adventures-in-Wonderland_11.txt").read_text("utf-8").split("\n")


@pytest.mark.parametrize("cased", [False, True])
def test_wordpiece_is_hugging_face_s_and_google_s(book, cased):
    tokenizer = learn_vocabulary(book, 2000, lowercase=not cased)
    assert (tokenizer.vocabulary_size, len({*tokenizer.vocabulary})) == (2000, 2000)
    assert tokenizer.unk_token_id not in tokenizer.tokenize(book).values.numpy()
    compare(tokenizer, wordpiece_of_hugging_face(tokenizer), [*book, *OTHER])
    texts = [*book[:300], *OTHER, *SENTENCES]
    for text, ids in zip(texts, tokenizer.tokenize(texts).to_list(), strict=True):
        found = reference.tokenize(text, {*tokenizer.vocabulary}, lowercase=not cased)
        assert [tokenizer.vocabulary[i] for i in ids] == [token for token, *_ in found], ascii(text)


def test_wordpiece_learns_what_hugging_face_s_own_trainer_does(book):
    """Which numbers tokens, and breaks ties, by chance: hence not all, and not in order."""
    tokenizer = learn_vocabulary(book, 2000)
    learner = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    learner.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    learner.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    learner.train_from_iterator(book, tokenizers.trainers.WordPieceTrainer(vocab_size=2000, show_progress=False))
    ours, theirs = (
        {token for token in each if len(token.removeprefix("##")) > 1}
        for each in (tokenizer.vocabulary, learner.get_vocab())
    )
    assert len(ours & theirs) > 0.97 * len(ours)


def test_bytepair_is_hugging_face_s(book):
    tokenizer = learn_vocabulary(book, 2000, "bytepair")
    assert tokenizer.vocabulary_size == 2000
    compare(tokenizer, bytepair_of_hugging_face(tokenizer), [*book, *SENTENCES, *OTHER])


@pytest.mark.parametrize("cased", [False, True])
def test_sentencepiece_is_google_s(book, cased):
    tokenizer = learn_vocabulary(book, 2000, "sentencepiece", lowercase=not cased)
    assert tokenizer.vocabulary_size == 2000
    model = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    texts = [*filter(None, book), *SENTENCES, *OTHER]
    ties = 0
    for text, ids in zip(texts, tokenizer.tokenize(texts).to_list(), strict=True):
        tokens = albert_pieces(model, text, lowercase=not cased, strip_accents=not cased)
        expected = [model.piece_to_id(piece) for piece in tokens]
        if ids != expected and "\0" not in text:  # the original's Python wrapper ends a text there
            # Versions of SentencePiece take another one of two ways that are equally likely, such as 0 00 and 00 0.
            scores = [sum(map(model.get_score, each)) for each in (ids, expected)]
            assert scores[0] == pytest.approx(scores[1], abs=1e-4), ascii(text)
            assert model.decode(ids) == model.decode(expected)
            ties += 1
    assert ties < len(texts) / 500
