"""Directories whose tokenizer files disagree: programs differ in which they follow, so none of them is followed."""

import json
import shutil

import pytest

from keras_bert.text import BytePairTokenizer, SentencePieceTokenizer, WordPieceTokenizer, load_tokenizer

from ..support import small
from ..support.messages import error_names

pytestmark = pytest.mark.usefixtures("untraced")
VOCABULARY = small.VOCABULARY
NEW = len(VOCABULARY)


def write(directory, tokenizer):
    """Writes all files of a tokenizer: its own, and `tokenizer.json`."""
    directory.mkdir(exist_ok=True)
    tokenizer.save_preset(directory)
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer.tokenizer_json()))
    return directory


def change(path, function):
    """Rewrites a JSON file by way of `function`, which changes the value in place."""
    value = json.loads(path.read_text()) if path.exists() else {}
    function(value)
    path.write_text(json.dumps(value))


def added(content, index, special=False):
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
    return {"id": index, "content": content, **flags, "normalized": not special, "special": special}


def swap(values, one, other):
    values[one], values[other] = values[other], values[one]


@pytest.fixture
def words(tmp_path):
    return write(tmp_path / "words", small.tokenizer())


@pytest.fixture
def pairs(byte_pairs, tmp_path):
    return write(tmp_path / "pairs", byte_pairs)


def refused(directory, *parts):
    with error_names(ValueError, directory, "contradict", *parts):
        load_tokenizer(directory)


def test_files_that_agree(words, pairs, albert_model, tmp_path):
    assert load_tokenizer(words).get_config() == small.tokenizer().get_config()
    assert isinstance(load_tokenizer(pairs), BytePairTokenizer)
    pieces = write(tmp_path / "pieces", SentencePieceTokenizer(albert_model))
    assert load_tokenizer(pieces).family == "albert"


def test_tokens_that_were_added_to_tokenizer_json_alone(words, pairs):
    """As transformers, whichever other files are there."""
    for directory, vocabulary in ((words, VOCABULARY), (pairs, load_tokenizer(pairs).vocabulary)):
        new = added("[WORLD]", len(vocabulary))
        change(directory / "tokenizer.json", lambda whole, new=new: whole["added_tokens"].append(new))
        tokenizer = load_tokenizer(directory)
        assert tokenizer.vocabulary == [*vocabulary, "[WORLD]"]
        assert tokenizer.added_tokens == ["[WORLD]"]
    assert load_tokenizer(words).tokenize("good[WORLD]").numpy().tolist() == [VOCABULARY.index("good"), NEW]


@pytest.mark.parametrize("extra", [False, True])
def test_swapped_ids(words, extra):
    def damage(whole):
        swap(whole["model"]["vocab"], "good", "bad")
        whole["added_tokens"].extend([added("[WORLD]", NEW)] * extra)  # then tokenizer.json is what is read

    change(words / "tokenizer.json", damage)
    refused(words, "as token", "vocab.txt", "tokenizer.json", "'good'", "'bad'")
    (words / "vocab.txt").unlink()
    assert load_tokenizer(words).vocabulary_size == NEW + extra


def test_swapped_ids_of_byte_pairs_and_pieces(pairs, albert_model, tmp_path):
    change(pairs / "vocab.json", lambda ids: swap(ids, "a", "b"))
    refused(pairs, "vocab.json", "tokenizer.json", "'a'", "'b'")
    pieces = write(tmp_path / "pieces", SentencePieceTokenizer(albert_model))
    change(pieces / "tokenizer.json", lambda whole: swap(whole["model"]["vocab"], 20, 21))
    refused(pieces, "tokenizer.json", "spiece.model")


def test_a_vocabulary_that_is_longer_or_shorter(words):
    vocabulary = (words / "vocab.txt").read_text("utf-8")
    (words / "vocab.txt").write_text(f"{vocabulary}more\n", "utf-8")
    refused(words, "tokenizer.json", "no token 'more'", "vocab.txt", "has 'more'")
    (words / "vocab.txt").write_text("".join(f"{token}\n" for token in reversed(VOCABULARY[:-3])), "utf-8")
    refused(words, "vocab.txt")


def test_the_tokenizer_of_another_model(words, pairs, albert_model, tmp_path):
    for source, name in ((pairs, "tokenizer.json"), (pairs, "vocab.json"), (albert_model.parent, albert_model.name)):
        mixed = shutil.copytree(words, tmp_path / f"mixed-{name}-{source.name}")
        shutil.copyfile(source / name, mixed / ("spiece.model" if source == albert_model.parent else name))
        with pytest.raises((ValueError, FileNotFoundError)):
            load_tokenizer(mixed)


def test_other_merges(pairs):
    lines = (pairs / "merges.txt").read_text("utf-8").splitlines()
    swap(lines, 1, 2)
    (pairs / "merges.txt").write_text("\n".join(lines), "utf-8")
    refused(pairs, "tokenizer.json", "other merges")


@pytest.mark.parametrize("is_special", [False, True])
def test_ids_of_added_tokens(words, is_special):
    (words / "tokenizer.json").unlink()
    token = {"content": "[MASK]", "special": is_special}
    change(words / "tokenizer_config.json", lambda config: config.update(added_tokens_decoder={"7": token}))
    problem = ["token 7", "contradict"] if is_special else ["not special"]
    with error_names(ValueError, "tokenizer_config.json", "'[MASK]'", *problem):
        load_tokenizer(words)
    change(words / "tokenizer_config.json", lambda config: config.pop("added_tokens_decoder"))
    (words / "added_tokens.json").write_text('{"[MASK]": 7}')
    refused(words, "added_tokens.json", "'[MASK]' as token 7", "vocab.txt")
    (words / "added_tokens.json").write_text('{"[MASK]": 4}')
    assert load_tokenizer(words).vocabulary == VOCABULARY


def test_names_of_special_tokens(words, albert_model, tmp_path):
    change(words / "special_tokens_map.json", lambda names: names.update(mask_token={"content": "[UNK]"}))
    refused(words, "special_tokens_map.json", "'[UNK]' as mask_token", "'[MASK]'")
    assert load_tokenizer(words, mask_token="[UNK]").mask_token_id == 1  # the caller's word
    change(words / "tokenizer_config.json", lambda config: config.pop("mask_token"))
    (words / "tokenizer.json").unlink()
    assert load_tokenizer(words).special_tokens["mask_token"] == "[UNK]"  # no other file names one


@pytest.mark.parametrize(("name", "place", "token"), [
    ("unk_token", "model", "[MASK]"),
    ("pad_token", "padding", "[MASK]"),
    ("cls_token", None, "[MASK]"),
])  # fmt: skip
@pytest.mark.parametrize("file", ["tokenizer_config.json", "special_tokens_map.json"])
def test_special_tokens_of_tokenizer_json(words, name, place, token, file):
    for each in ("tokenizer_config.json", "special_tokens_map.json"):
        change(words / each, lambda names: names.pop(name, None))
    change(words / file, lambda names: names.update({name: f"[{name[:3].upper()}]" if place else token}))
    if place:
        change(words / "tokenizer.json", lambda whole: whole.update({place: {**(whole[place] or {}), name: token}}))
    refused(words, file, f"as {name}", "'[MASK]'", "tokenizer.json")


@pytest.mark.parametrize(
    ("settings", "normalizer"),
    [
        ({"do_lower_case": True}, {"lowercase": False}),
        ({"do_lower_case": False}, {}),
        ({"strip_accents": False}, {}),
        ({"tokenize_chinese_chars": False}, {}),
    ],
)
@pytest.mark.parametrize("with_vocabulary", [False, True])
def test_normalization(words, settings, normalizer, with_vocabulary):
    change(words / "tokenizer_config.json", lambda config: config.update(settings))
    change(words / "tokenizer.json", lambda whole: whole["normalizer"].update(normalizer))
    if not with_vocabulary:
        (words / "vocab.txt").unlink()
    ((name, value),) = settings.items()
    with error_names(ValueError, words, "tokenizer_config.json", f"{name} {value}", "tokenizer.json", "trained"):
        load_tokenizer(words)


def test_normalization_in_tokenizer_json_alone(words):
    change(words / "tokenizer.json", lambda whole: whole["normalizer"].update(lowercase=False))
    (words / "tokenizer_config.json").unlink()
    for _ in range(2):
        tokenizer = load_tokenizer(words)
        assert isinstance(tokenizer, WordPieceTokenizer)
        assert not tokenizer.lowercase
        (words / "vocab.txt").unlink(missing_ok=True)


def test_a_damaged_file_is_named_even_if_others_suffice(words):
    for content, problem in (("{", "not a JSON file"), ('{"model": 3}', "no vocabulary")):
        (words / "tokenizer.json").write_text(content)
        with error_names(ValueError, words / "tokenizer.json", problem):
            load_tokenizer(words)


@pytest.mark.slow
def test_real_directories_agree(shared_data):
    found = 0
    for directory in sorted({path.parent for path in (shared_data / "modern").rglob("tokenizer_config.json")}):
        names = {path.name for path in directory.iterdir()}
        if names & {"vocab.txt", "tokenizer.json", "spm.model"} and "pointers" not in directory.name:
            load_tokenizer(directory)
            found += 1
    assert found > 10
