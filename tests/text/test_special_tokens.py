"""Special tokens that a model adds, such as markers of entities: text by default, read on request, never lost."""

import dataclasses
import functools
import json

import pytest

from keras_bert import BertPreprocessor
from keras_bert.formats import write_config
from keras_bert.text import SentencePieceTokenizer, load_tokenizer
from keras_bert.text.arrays.preprocessor import ArrayPreprocessor

from ..support import small, tokenization
from ..support.messages import error_names, warning_names

pytestmark = pytest.mark.usefixtures("untraced")

MARKERS = ["[E1]", "[/E1]"]
TEXT = "[E1] the film [/E1] was good"


def write_words(directory):
    (directory / "vocab.txt").write_text("".join(f"{word}\n" for word in small.VOCABULARY))
    return small.VOCABULARY


def write_byte_pairs(directory):
    tokenizer = small.byte_pairs([("t", "h"), ("th", "e")])
    tokenizer.save_preset(directory)
    (directory / "tokenizer_config.json").unlink()
    return tokenizer.vocabulary


def write_pieces(directory, train, name, family):
    (directory / name).write_bytes(train())
    return SentencePieceTokenizer(directory / name, family).vocabulary


KINDS = {
    "words": write_words,
    "byte pairs": write_byte_pairs,
    "albert": functools.partial(write_pieces, train=tokenization.train_albert, name="spiece.model", family="albert"),
    "xlm-roberta": functools.partial(
        write_pieces, train=tokenization.train_xlm_roberta, name="sentencepiece.bpe.model", family="xlm-roberta"
    ),
}
CLASSES = dict(zip(KINDS, ("Bert", "Roberta", "Albert", "XLMRoberta"), strict=True))
# The file of transformers -> its content, with the ids of the two markers.
FILES = {
    "additional_special_tokens": lambda ids: {"tokenizer_config.json": {"additional_special_tokens": MARKERS}},
    "extra_special_tokens": lambda ids: {"tokenizer_config.json": {"extra_special_tokens": MARKERS}},
    "named tokens": lambda ids: {
        "tokenizer_config.json": {"extra_special_tokens": dict(zip("ab", MARKERS, strict=True))}
    },
    "special_tokens_map": lambda ids: {
        "special_tokens_map.json": {"additional_special_tokens": [{"content": marker} for marker in MARKERS]},
        "added_tokens.json": ids,
    },
    "added_tokens": lambda ids: {
        "tokenizer_config.json": {"additional_special_tokens": MARKERS},
        "added_tokens.json": ids,
    },
    "added_tokens_decoder": lambda ids: {
        "tokenizer_config.json": {
            "added_tokens_decoder": {str(i): {"content": token, "special": True} for token, i in ids.items()}
        }
    },
}


def write(directory, kind, file):
    """Writes a tokenizer's files, and returns its vocabulary without the markers, and their ids."""
    vocabulary = KINDS[kind](directory)
    ids = {marker: len(vocabulary) + i for i, marker in enumerate(MARKERS)}
    for name, content in FILES[file](ids).items():
        (directory / name).write_text(json.dumps(content))
    return vocabulary, ids


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_file_with_special_tokens(kind, file, tmp_path):
    vocabulary, ids = write(tmp_path, kind, file)
    plain = load_tokenizer(tmp_path)
    assert plain.vocabulary == [*vocabulary, *MARKERS]
    found = plain.tokenize(TEXT).numpy().tolist()
    assert not {*found} & {*ids.values()}
    aware = load_tokenizer(tmp_path, special_tokens_in_text=True)
    marked = aware.tokenize(TEXT).numpy().tolist()
    assert [token for token in marked if token in ids.values()] == [*ids.values()]
    assert [*aware.tokenize(" the film ").numpy(), ids["[/E1]"]] == marked[1 : marked.index(ids["[/E1]"]) + 1]


@pytest.mark.parity
@pytest.mark.parametrize("kind", KINDS)
def test_transformers_reads_what_is_saved(kind, tmp_path, auto_tokenizer, tokenizers):
    write(tmp_path, kind, "added_tokens")
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    config["tokenizer_class"] = f"{CLASSES[kind]}Tokenizer"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    ours = load_tokenizer(tmp_path, special_tokens_in_text=True)
    ours.save_preset(tmp_path / "saved")
    ids = ours.tokenize(TEXT).numpy().tolist()
    for directory in (tmp_path, tmp_path / "saved"):
        theirs = auto_tokenizer(directory)
        assert theirs(TEXT, add_special_tokens=False)["input_ids"] == ids
    exported = tokenizers.Tokenizer.from_str(json.dumps(ours.tokenizer_json()))
    assert exported.encode(TEXT, add_special_tokens=False).ids == ids
    assert load_tokenizer(tmp_path / "saved").get_config() == load_tokenizer(tmp_path).get_config()


@pytest.mark.parametrize("kind", KINDS)
def test_without_tensorflow_and_from_tokenizer_json_alone(kind, tmp_path):
    pytest.importorskip("tokenizers")
    vocabulary, _ = write(tmp_path, kind, "added_tokens")
    plain, aware = (load_tokenizer(tmp_path, special_tokens_in_text=flag) for flag in (False, True))
    config = dataclasses.replace(small.CONFIG, vocab_size=len(vocabulary) + 2)
    write_config(tmp_path / "config.json", config)
    for tokenizer in (plain, aware):
        packed = BertPreprocessor(tokenizer, sequence_length=None)([TEXT])
        other = ArrayPreprocessor.from_preset(tmp_path, tokenizer.special_tokens_in_text, sequence_length=None)
        assert other([TEXT])["input_word_ids"].tolist() == packed["input_word_ids"].numpy().tolist()
    if kind == "albert":  # whose file alone is another family
        return
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "tokenizer.json").write_text(json.dumps(plain.tokenizer_json()))
    alone = load_tokenizer(tmp_path / "alone", special_tokens_in_text=True)
    assert alone.vocabulary == plain.vocabulary
    assert alone.more_special_tokens == MARKERS
    assert alone.tokenize(TEXT).numpy().tolist() == aware.tokenize(TEXT).numpy().tolist()


def test_a_word_that_is_a_special_token_is_text(tmp_path, tokenizers):
    """In plain text, it is split like any other word, as by Hugging Face's tokenizers."""
    write_words(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"additional_special_tokens": ["filmy", "old film"]}))
    for flag in (False, True):
        tokenizer = load_tokenizer(tmp_path, special_tokens_in_text=flag)
        theirs = tokenizers.Tokenizer.from_str(json.dumps(tokenizer.tokenizer_json()))
        theirs.encode_special_tokens = not flag
        text = "a filmy old film, old\tfilm"
        assert tokenizer.tokenize(text).numpy().tolist() == theirs.encode(text, add_special_tokens=False).ids
    tokenizer.save_preset(tmp_path / "saved")
    assert load_tokenizer(tmp_path / "saved", special_tokens_in_text=True).get_config() == tokenizer.get_config()


def test_ids_that_do_not_follow_and_tokens_without_a_row(small_preset, tmp_path):
    vocabulary = write_words(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"additional_special_tokens": MARKERS}))
    (tmp_path / "added_tokens.json").write_text(json.dumps({MARKERS[0]: len(vocabulary) + 1}))
    with error_names(ValueError, tmp_path, "[E1", len(vocabulary) + 1, len(vocabulary) - 1):
        load_tokenizer(tmp_path)
    (tmp_path / "added_tokens.json").unlink()
    (tmp_path / "config.json").write_bytes((small_preset / "config.json").read_bytes())
    with warning_names("[E1", "left out", f"{len(vocabulary)} rows"):
        assert load_tokenizer(tmp_path).vocabulary == vocabulary
