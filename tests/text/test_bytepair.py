"""BytePairTokenizer: the same tokens as a slow one, as the original's, and as Hugging Face's; words; files."""

import json
import random

import hypothesis
import pytest
from hypothesis import strategies as st

from keras_bert.text import BytePairTokenizer, load_tokenizer
from keras_bert.text.words import OTHER, PATTERN_KINDS, kinds_of_characters

from ..support import small
from ..support.messages import error_names
from ..support.reference import bytepair as reference
from ..support.texts import SENTENCES
from ..support.tokenization import NASTY, ODD_WORDS, compare_byte_pairs, random_texts

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
MANY = "'stmdrevl  \n\t\u00a0\u3000é中😀\u0301½1.-"


def test_texts_of_all_kinds(byte_pairs):
    compare_byte_pairs(byte_pairs, [*SENTENCES, *ODD_WORDS, " ".join(SENTENCES), *random_texts(MANY + NASTY, 80, 30)])


def test_a_long_word(byte_pairs):
    """Beside short ones; of letters of which many merges are made."""
    word = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=1500))
    compare_byte_pairs(byte_pairs, ["the", f"{word} {word[:70]}", ""])


def test_no_merges_at_all(untraced):
    compare_byte_pairs(small.byte_pairs([]), ["ab é", ""])


@pytest.fixture(scope="module")
def known():
    """Of what kind a character is, Python's and TensorFlow's Unicode agree on: the newest of one are left out."""
    kinds = kinds_of_characters(PATTERN_KINDS, OTHER)
    chars = [chr(code) for code in [*range(0xD800), *range(0xE000, 0x30000), 0x10FFFF] if code]
    known = {char for char in chars if "OLNS"[kinds[min(ord(char), len(kinds) - 1)]] == reference.kind(char)} | {"\0"}
    assert len(known) > 0.9 * 0x30000
    return known


def test_prefix_space(merges, untraced):
    plain, tokenizer = small.byte_pairs(merges[:20]), small.byte_pairs(merges[:20], add_prefix_space=True)
    texts = ["the", " the", "\nthe", "", "é x"]
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    assert ids.to_list() == plain.tokenize([" the", " the", " \nthe", "", " é x"]).to_list()
    for text, first, last in zip(texts, starts.to_list(), ends.to_list(), strict=True):
        cut = [text.encode()[a:b] for a, b in zip(first, last, strict=True)]
        assert b"".join(cut).replace(b" ", b"") == text.encode().replace(b" ", b"")
    assert tokenizer.detokenize(ids[0]).numpy() == b" the"


def test_special_tokens_in_text(merges, untraced):
    plain, aware = small.byte_pairs(merges[:20]), small.byte_pairs(merges[:20], special_tokens_in_text=True)
    text = "Paris is  \u3000<mask> of <mask>,<s>x </s>"
    assert plain.mask_token_id not in plain.tokenize(text).numpy()
    ids, starts, ends = aware.tokenize_with_offsets([text, "", "<mask>"])
    parts = [plain.tokenize(part).numpy().tolist() for part in ("Paris is", " of", ",", "x ")]
    mask, cls, sep = aware.mask_token_id, aware.cls_token_id, aware.sep_token_id
    assert ids.to_list() == [[*parts[0], mask, *parts[1], mask, *parts[2], cls, *parts[3], sep], [], [mask]]
    assert aware.tokenize([text, "", "<mask>"]).to_list() == ids.to_list()
    cut = [text.encode()[a:b] for i, a, b in zip(ids[0], starts[0], ends[0], strict=True) if i == mask]
    assert cut == [b"<mask>", b"<mask>"]


def test_words(byte_pairs):
    """A word begins with the space before it; what follows without one belongs to it."""
    ids = byte_pairs.tokenize(["the fox, it", "", "x"])
    (words,) = byte_pairs.group_by_word(ids)
    text = [[byte_pairs.detokenize(word).numpy().decode() for word in row] for row in words.to_list()]
    assert text == [["the", " fox,", " it"], [], ["x"]]


def test_detokenize_is_exact(byte_pairs):
    ids = byte_pairs.tokenize("漢").numpy().tolist()
    assert byte_pairs.detokenize(ids[:-1]).numpy() == "漢".encode()[:-1]  # half a character stays half a character
    names = ["<s>", "a", "<mask>", "<unk>", "</s>", "<pad>"]
    assert byte_pairs.detokenize([byte_pairs.vocabulary.index(name) for name in names]).numpy() == b"a<mask><unk>"


# -- Files


def test_preset_round_trip(merges, tmp_path, untraced):
    tokenizer = small.byte_pairs(merges[:20], add_prefix_space=True)
    tokenizer.save_preset(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["merges.txt", "tokenizer_config.json", "vocab.json"]
    assert BytePairTokenizer.from_preset(tmp_path).get_config() == tokenizer.get_config()
    assert not BytePairTokenizer.from_preset(tmp_path, add_prefix_space=False).add_prefix_space
    with error_names(FileExistsError, tmp_path, "vocab.json, merges.txt", "overwrite"):
        tokenizer.save_preset(tmp_path)


def test_an_unknown_token_that_is_the_padding_is_saved(merges, tmp_path, untraced):
    """As EuroBERT's, which names no unknown token."""
    tokenizer = small.byte_pairs(merges[:20], unk_token="<pad>")
    tokenizer.save_preset(tmp_path)
    assert load_tokenizer(tmp_path).get_config() == tokenizer.get_config()


@pytest.mark.slow
def test_reads_the_published_tokenizer_json(shared_data, roberta, tmp_path):
    (tmp_path / "tokenizer.json").write_bytes((shared_data / "vocabs/roberta_tokenizer.json").read_bytes())
    assert BytePairTokenizer.from_preset(tmp_path).get_config() == roberta.get_config()


# -- The published vocabulary, real books, anything at all


@pytest.mark.slow
def test_ids_of_the_original(shared_data, roberta):
    vectors = json.loads((shared_data / "verified_vectors.json").read_text("utf-8"))["roberta vocab+merges"]
    assert roberta.tokenize([*vectors]).to_list() == [*vectors.values()]


@pytest.mark.slow
@hypothesis.settings(max_examples=80, deadline=None)
@hypothesis.given(st.lists(st.text(st.sampled_from(MANY) | st.characters()), max_size=4))
def test_arbitrary_unicode(byte_pairs, known, texts):
    allowed = frozenset(known)
    compare_byte_pairs(byte_pairs, ["".join(char for char in text if char in allowed) for text in texts])


@pytest.mark.slow
@pytest.mark.parametrize("text", ["hello wörld " * 80_000, "x" * 1_000_000], ids=["words", "one word"])
def test_a_megabyte(byte_pairs, text):
    ids, starts, ends = byte_pairs.tokenize_with_offsets(text)
    assert (starts[0], ends[-1]) == (0, len(text.encode()))
    assert byte_pairs.detokenize(ids).numpy() == text.encode()
