"""A `tokenizer.json` of type WordPiece: each of its settings is honoured or refused by name."""

import copy
import json
import re

import pytest

from keras_bert import BertPreprocessor, presets
from keras_bert.formats.hugging_face_tokenizers import template
from keras_bert.text import WordPieceTokenizer, load_tokenizer

from ..support.texts import SENTENCES
from ..support.tokenization import NASTY, is_known, random_texts, wordpiece_json, words_of

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXTS = [*SENTENCES, "Ünïcödé 北京 don't", "x" * 99 + " " + "x" * 100 + " " + "x" * 101, "a b\u3000c"]
VOCABULARY = [*SPECIAL, *words_of(TEXTS), *"xyz", "##x"]
VOCABULARY = [*dict.fromkeys(VOCABULARY)]
CLS, SEP = ("[CLS]", 2), ("[SEP]", 3)
CONTENT = wordpiece_json(WordPieceTokenizer(VOCABULARY))


def write(directory, *keys, **changes):
    """Writes `CONTENT` with other values in the object at `keys`."""
    content = copy.deepcopy(CONTENT)
    part = content
    for key in keys:
        part = part[key]
    part.update(changes)
    (directory / "tokenizer.json").write_text(json.dumps(content))


def test_reads_tokenizer_json(tmp_path):
    """transformers 5 writes no vocab.txt."""
    path = presets.resolve("all-MiniLM-L6-v2") / "tokenizer.json"
    (tmp_path / "tokenizer.json").write_bytes(path.read_bytes())
    tokenizer = WordPieceTokenizer.from_preset(tmp_path)
    original = WordPieceTokenizer.from_preset("all-MiniLM-L6-v2", max_chars_per_word=100)
    assert tokenizer.get_config() == original.get_config() | {"strip_accents": None}


def test_the_longest_word_is_honoured_and_saved(tmp_path, untraced):
    write(tmp_path, "model", max_input_chars_per_word=3)
    tokenizer = load_tokenizer(tmp_path)
    x, inside = VOCABULARY.index("x"), VOCABULARY.index("##x")
    assert tokenizer.tokenize("xxx xxxx").numpy().tolist() == [x, inside, inside, 1]
    tokenizer.save_preset(tmp_path / "saved")
    assert load_tokenizer(tmp_path / "saved").get_config() == tokenizer.get_config()


def test_tokens_around_texts_are_honoured(tmp_path, untraced):
    """Their names are in the post-processor, also in the one that older files have."""
    for post_processor in (
        template(("x", VOCABULARY.index("x")), ("y", VOCABULARY.index("y")), 1, 1),
        {"type": "BertProcessing", "cls": ["x", VOCABULARY.index("x")], "sep": ["y", VOCABULARY.index("y")]},
    ):
        write(tmp_path, post_processor=post_processor)
        packed = BertPreprocessor(load_tokenizer(tmp_path), sequence_length=4)(["z"])["input_word_ids"].numpy()
        assert [VOCABULARY[i] for i in packed[0]] == ["x", "z", "y", "[PAD]"]


MPNET = ["<s>", "<pad>", "</s>", "<unk>", "[UNK]", "[PAD]", *VOCABULARY[5:], "<mask>"]
OF_MPNET = {"unk_token": "[UNK]", "cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>"}
ADDED = ["<User>", "don", "北", "né", "[x]"]
PAIR = "Hello, world", "don't"


def write_mpnet(directory, post_processor):
    """Writes a `tokenizer.json` with MPNet's special tokens: two that stand for unknown text, of which one is used."""
    content = copy.deepcopy(CONTENT) | {"post_processor": post_processor}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    special = [*MPNET[:5], "<mask>"]
    content["added_tokens"] = [{"id": MPNET.index(token), "content": token, **flags} for token in special]
    content["model"]["vocab"] = {token: i for i, token in enumerate(MPNET)}
    (directory / "tokenizer.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("post_processor", "class_name"),
    [
        ({"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 2]}, "MPNetTokenizer"),
        (template(("<s>", 0), ("</s>", 2), 2, 1), "PreTrainedTokenizerFast"),
        (template(("<s>", 0), ("</s>", 2), 1, 0), "PreTrainedTokenizerFast"),
        (template(("<s>", 0), ("</s>", 2), 1, 1), "BertTokenizer"),
    ],
)
def test_mpnet(post_processor, class_name, tmp_path, untraced):
    """Pairs are packed as the file asks for, and as it says again when it is saved."""
    library = pytest.importorskip("tokenizers", reason="needs Hugging Face's tokenizers to compare with")
    if post_processor["type"] == "RobertaProcessing":
        post_processor = post_processor | {"trim_offsets": True, "add_prefix_space": False}
    write_mpnet(tmp_path, post_processor)
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.special_tokens == OF_MPNET
    theirs = library.Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode(*PAIR)
    packed = BertPreprocessor(tokenizer, sequence_length=None)(PAIR)
    assert packed["input_word_ids"].numpy().tolist() == theirs.ids
    assert packed["input_type_ids"].numpy().tolist() == theirs.type_ids

    tokenizer.save_preset(tmp_path / "saved")
    assert json.loads((tmp_path / "saved/tokenizer_config.json").read_text())["tokenizer_class"] == class_name
    assert load_tokenizer(tmp_path / "saved").get_config() == tokenizer.get_config()


def test_mpnet_without_tokenizer_json(tmp_path, untraced):
    """Then the class in tokenizer_config.json tells how pairs are packed."""
    (tmp_path / "vocab.txt").write_text("\n".join(MPNET))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MPNetTokenizerFast", **OF_MPNET}))
    (tmp_path / "json").mkdir()
    write_mpnet(tmp_path / "json", {"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 2]})
    assert load_tokenizer(tmp_path).get_config() == load_tokenizer(tmp_path / "json").get_config() | {
        "strip_accents": None
    }


@pytest.mark.parity
@pytest.mark.parametrize("name", ["all-mpnet-base-v2", "all-mpnet-base-v2-st5.5"])
def test_the_published_mpnet(shared_data, name, tmp_path):
    """The published files, and what we save of them, read by transformers."""
    transformers = pytest.importorskip("transformers")
    ours = load_tokenizer(shared_data / "modern" / name)
    ours.save_preset(tmp_path)
    probe = "Hello, world!  It's 2026: naïve café 日本語 \n\n    indented"
    ids = "7596 1014 2092 1003 2013 1009 1059 16802 2579 1028 15747 7672 1868 1880 1954 27431 14092"
    assert ours.tokenize(probe).numpy().tolist() == [*map(int, ids.split())]
    texts = [text for text in TEXTS if "Σ" not in text]  # whose final form theirs does not know
    texts += (shared_data / "gutenberg/Dracula_345.txt").read_text("utf-8").split("\n")
    want = ours.tokenize(texts).to_list()
    packed = BertPreprocessor(ours, sequence_length=None)(("Hello", "it is"))["input_word_ids"].numpy().tolist()
    for directory in (shared_data / "modern" / name, tmp_path):
        theirs = transformers.AutoTokenizer.from_pretrained(directory)
        assert theirs(texts, add_special_tokens=False, padding=False, truncation=False)["input_ids"] == want
        assert theirs("Hello", "it is")["input_ids"] == packed


@pytest.mark.parametrize("lowercase", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_added_tokens(lowercase, tmp_path):
    """They are found anywhere in normalized text, as in Hugging Face's tokenizers."""
    library = pytest.importorskip("tokenizers", reason="needs Hugging Face's tokenizers to compare with")
    vocabulary = [*dict.fromkeys((*VOCABULARY, *ADDED))]
    added = sorted(ADDED, key=vocabulary.index)
    tokenizer = WordPieceTokenizer(vocabulary, lowercase, max_chars_per_word=5, added_tokens=added)
    tokenizer.save_preset(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]
    theirs = library.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    theirs.encode_special_tokens = True
    parts = [*ADDED, "<user>", "Don", "NE\u0301", "n\u0301e", "x", "xxxxxx", " ", "\u200b", "[x", "[MASK]", "京", "."]
    texts = [*TEXTS[:4], *random_texts(parts, 300, 9)]
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    assert ids.to_list() == [each.ids for each in theirs.encode_batch(texts, add_special_tokens=False)]
    assert {*map(vocabulary.index, ADDED)} <= {*ids.flat_values.numpy().tolist()}
    text = "aNE\u0301 \u200b<User>x"
    ids, starts, ends = (each.numpy().tolist() for each in tokenizer.tokenize_with_offsets(text))
    cut = {vocabulary[i]: text.encode()[a:b].decode() for i, a, b in zip(ids, starts, ends, strict=True)}
    assert cut["<User>"] == "<User>"
    assert not lowercase or cut["né"] == "NE\u0301"

    again = load_tokenizer(tmp_path)
    assert again.get_config() == tokenizer.get_config()
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY))  # as transformers 4 leaves it, with the tokens elsewhere
    (tmp_path / "added_tokens.json").write_text(json.dumps({token: vocabulary.index(token) for token in ADDED}))
    assert load_tokenizer(tmp_path).get_config() == tokenizer.get_config()


def test_an_added_token_of_which_nothing_is_left():
    with pytest.raises(ValueError, match="normalization leaves nothing of the added token"):
        WordPieceTokenizer([*VOCABULARY, "\u200b"], added_tokens=["\u200b"])


def test_an_empty_token_is_in_no_text(tmp_path, untraced):
    """transformers 5 writes it in place of U+2028, which BERT's Chinese vocabulary has."""
    vocabulary = {**CONTENT["model"]["vocab"], "": len(VOCABULARY)}
    write(tmp_path, "model", vocab=vocabulary)
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.vocabulary_size == len(vocabulary)
    assert (
        tokenizer.tokenize(TEXTS).to_list()
        == WordPieceTokenizer(VOCABULARY, max_chars_per_word=100).tokenize(TEXTS).to_list()
    )


REFUSED = [
    (("model",), {"continuing_subword_prefix": "@@"}, "marks continuing tokens with '@@', where"),
    (("model",), {"type": "BPE"}, "holds a BPE tokenizer, not WordPiece"),
    (("normalizer",), {"clean_text": False}, "keeps control characters, clean_text: False"),
    (("normalizer",), {"type": "Lowercase"}, "normalizes with 'Lowercase', where"),
    (
        (),
        {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Lowercase"}, {"type": "StripAccents"}]}},
        "normalizes with 'Lowercase, StripAccents', where",
    ),
    ((), {"normalizer": None}, "normalizes with None, where"),
    ((), {"normalizer": {"type": "BertNormalizer"}}, "its normalizer has no clean_text; expected true or false"),
    ((), {"pre_tokenizer": {"type": "Whitespace"}}, "splits text with 'Whitespace', where"),
    ((), {"pre_tokenizer": None}, "splits text with None, where"),
    ((), {"post_processor": None}, "its post_processor is None, which packs texts neither"),
    ((), {"post_processor": {"type": "ByteLevel"}}, "which packs texts neither"),
    ((), {"post_processor": template(CLS, SEP, 3, 1)}, "which packs texts neither"),
    ((), {"post_processor": template(CLS, SEP, 1, 2)}, "which packs texts neither"),
    ((), {"post_processor": template(("[CLS]", 3), SEP, 1, 1)}, "which packs texts neither"),
    (("post_processor",), {"special_tokens": {}}, "which packs texts neither"),
    (
        (),
        {"added_tokens": [{"id": len(VOCABULARY), "content": "<user>", "special": False, "rstrip": True}]},
        "white space after it",
    ),
    # Damaged files.
    (("model",), {"max_input_chars_per_word": 0}, "max_chars_per_word is 0"),
    (("model",), {"max_input_chars_per_word": 10**12}, "max_chars_per_word is 1000000000000"),
    (("model",), {"max_input_chars_per_word": "9"}, "has '9' in model.max_input_chars_per_word; expected a whole numb"),
    (("model",), {"vocab": {}}, "the vocabulary has only special tokens"),
    (("model",), {"vocab": [1]}, "has [1] in model.vocab; expected an object"),
    (("model",), {"vocab": {"a": None}}, "has no model.vocab.a; expected a whole number"),
    (("model",), {"unk_token": "[OOV]"}, "has no [OOV]; add it, or pass its name there as unk_token="),
    ((), {"model": [[]]}, "has [[]] in model; expected an object"),
    ((), {"model": None}, "has no model; expected an object"),
    ((), {"added_tokens": {}}, "has {} in added_tokens; expected a list or null"),
]


@pytest.mark.parametrize(("keys", "changes", "message"), REFUSED)
def test_what_cannot_be_honoured_is_refused(keys, changes, message, tmp_path):
    write(tmp_path, *keys, **changes)
    with pytest.raises(ValueError, match=re.escape(message)):
        WordPieceTokenizer.from_preset(tmp_path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"mask_token": ["x"]}, "has ['x'] in mask_token; expected a string or an object or null"),
        ({"pad_token": {}}, "has no pad_token.content; expected a string"),
        ({"do_lower_case": "false"}, "has 'false' in do_lower_case; expected true or false or null"),
        ({"do_basic_tokenize": False}, "do_basic_tokenize is False; only"),
        ({"never_split": ["a"]}, "never_split is ['a']; only"),
        ({"word_tokenizer_type": "mecab"}, "word_tokenizer_type is 'mecab'; only"),
        ({"subword_tokenizer_type": "character"}, "subword_tokenizer_type is 'character'; only"),
        ({"added_tokens_decoder": {"9": {"content": "<user>"}}}, "has the added token '<user>'; tokens"),
    ],
)
def test_tokenizer_config(config, message, tmp_path):
    write(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"tokenizer_config\.json:? " + re.escape(message)):
        WordPieceTokenizer.from_preset(tmp_path)


@pytest.mark.parametrize("is_special", [False, True])
def test_added_tokens_of_older_versions(is_special, tmp_path):
    """Not in tokenizer_config.json, but in files of their own."""
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY))
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<user>": len(VOCABULARY), "[MASK]": 4}))
    names = {"mask_token": {"content": "[MASK]"}, "additional_special_tokens": ["<user>"] if is_special else []}
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(names))
    if is_special:  # in plain text, special tokens are text
        assert WordPieceTokenizer.from_preset(tmp_path).vocabulary == VOCABULARY
    else:
        with pytest.raises(
            ValueError, match=r"added_tokens\.json has the added token '<user>'; tokens that are not special"
        ):
            WordPieceTokenizer.from_preset(tmp_path)


@pytest.mark.parity
@pytest.mark.parametrize(
    ("keys", "changes"),
    [
        ((), {}),
        (("model",), {"max_input_chars_per_word": 5}),
        (("normalizer",), {"lowercase": False}),
        (("normalizer",), {"strip_accents": False}),
        (("normalizer",), {"lowercase": False, "strip_accents": True}),
        (("normalizer",), {"handle_chinese_chars": False}),
    ],
)
def test_same_ids_as_hugging_face(keys, changes, tmp_path):
    """Whole sequences, single and in pairs."""
    tokenizers = pytest.importorskip("tokenizers")
    write(tmp_path, *keys, **changes)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ours = BertPreprocessor(load_tokenizer(tmp_path), sequence_length=None)
    # They lower-case character by character, and so give no Greek word in capitals its small final sigma. They remove
    # characters for private use, which Google's original keeps.
    chars = [char for char in NASTY + "aexyz é北" if is_known(char) and char not in "ΣİI\ue000"]
    texts = [text for text in [*TEXTS, *random_texts(chars, 400)] if "Σ" not in text]
    assert len(texts) > 400
    others = texts[1:] + texts[:1]
    for packed, encoded in (
        (ours(texts), theirs.encode_batch(texts)),
        (ours((texts, others)), theirs.encode_batch([*zip(texts, others, strict=True)])),
    ):
        ids, type_ids, mask = (packed[name].numpy() for name in ("input_word_ids", "input_type_ids", "input_mask"))
        for text, row, types, length, want in zip(texts, ids, type_ids, mask.sum(1), encoded, strict=True):
            assert row[:length].tolist() == want.ids, ascii(text)
            assert types[:length].tolist() == want.type_ids, ascii(text)
