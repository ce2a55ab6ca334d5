"""Hugging Face's tokenizer files for byte-pair encoding."""

import functools
import reprlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.formats.tokenizers import tokenizer_json
from keras_bert.formats.tokenizers.tokenizer_files import TokenizerFiles
from keras_bert.formats.tokenizers.tokenizer_json import ALL_IN_ONE, ANY_CLASS, CONFIG, IDS, MERGES, TOKENS

_CONTRACTIONS = "'s|'t|'re|'ve|'m|'ll|'d"
_DIGITS, _BYTE_LEVEL = {"type": "Digits", "individual_digits": True}, {"type": "ByteLevel"}


@dataclass(frozen=True)
class SplitPattern:
    """What is a word: a run of letters, of numbers, of white space, or of other signs, maybe with a space before it."""

    # The graph (`text/words.py`), which has no such regular expressions, computes the same.
    capitals: bool = False  # contractions, such as 's, may have capitals
    digits: int | None = None  # the most numbers in a word; None: any, and a space before them
    spaces_before_digits: bool = False  # white space before a number is one word, however long
    letters_take_any: bool = False  # letters take any white space or sign before them, not only a space
    line_ends: bool = False  # white space ends with its last line end, and signs take line ends after them
    before: list[dict[str, Any]] | None = None  # steps before a ByteLevel with GPT-2's pattern; None: a Split does it

    @property
    def expression(self) -> str:
        """The regular expression that matches words, as in a `tokenizer.json`."""
        numbers = {None: r" ?\p{N}+", 1: r"\p{N}"}.get(self.digits, rf"\p{{N}}{{1,{self.digits}}}")
        words = [
            f"(?i:{_CONTRACTIONS})" if self.capitals else _CONTRACTIONS,
            (r"[^\r\n\p{L}\p{N}]?" if self.letters_take_any else " ?") + r"\p{L}+",
            numbers,
            r" ?[^\s\p{L}\p{N}]+" + r"[\r\n]*|\s*[\r\n]+" * self.line_ends,
        ]
        return "|".join([*words, *[r"\s+(?=\p{N})"] * self.spaces_before_digits, r"\s+(?!\S)|\s+"])


# "gpt2" is from Radford et al. 2019. "digits" is the same, but each number is a word (SmolLM). "llama3" is the pattern
# of cl100k_base and Llama 3, which EuroBERT uses.
SPLIT_PATTERNS = {
    "gpt2": SplitPattern(before=[]),
    "digits": SplitPattern(digits=1, spaces_before_digits=True, before=[_DIGITS]),
    "llama3": SplitPattern(capitals=True, digits=3, letters_take_any=True, line_ends=True),
}
# Supported (behavior, invert) of a Split. The patterns match all text, so in both cases each match is a word.
_SUPPORTED_SPLITS = (("Isolated", False), ("Removed", True))


def split_of_file(path: Path, steps: list[dict[str, object]]) -> str:
    """Finds the name of the pattern of a ByteLevel, or of what is before it. Raises ValueError for any other."""
    types, last = tokenizer_json.types_of(steps), steps[-1] if steps else {}
    if types != "Split, ByteLevel":
        names = (name for name, each in SPLIT_PATTERNS.items() if each.before == steps[:-1])
        found = next(names, BytePairArguments.split)
        tokenizer_json.refuse(
            path,
            ("splits text with", types, tokenizer_json.types_of([*(SPLIT_PATTERNS[found].before or []), _BYTE_LEVEL])),
            ("splits text by another pattern than GPT-2's, use_regex:", last.get("use_regex", True), True),
        )
        return found
    split = steps[0]
    tokenizer_json.refuse(
        path,
        ("splits text once more, use_regex:", last.get("use_regex", True), False),
        ("puts a space before each word, add_prefix_space:", bool(last.get("add_prefix_space")), False),
    )
    if (split.get("behavior"), bool(split.get("invert"))) not in _SUPPORTED_SPLITS:
        raise ValueError(
            f"{path} splits text with the behavior {split.get('behavior')!r}, invert: {split.get('invert')}, where the "
            "tokenizer here has 'Isolated', invert: False: ids would differ"
        )
    pattern = split.get("pattern") or {}
    for name, known in SPLIT_PATTERNS.items():
        if pattern == {"Regex": known.expression}:
            return name
    raise ValueError(
        f"{path} splits text by {reprlib.repr(pattern)}, a pattern that is not supported "
        f"(supported are {', '.join(SPLIT_PATTERNS)})"
    )


def pre_tokenizer_of(split: str, add_prefix_space: bool) -> dict[str, object]:
    """Makes the `pre_tokenizer` of a `tokenizer.json`. `split` names a pattern."""
    pattern = SPLIT_PATTERNS[split]
    rest = {"add_prefix_space": add_prefix_space, "trim_offsets": True, "use_regex": pattern.before is not None}
    first = {"type": "Split", "pattern": {"Regex": pattern.expression}, "behavior": "Isolated", "invert": False}
    steps = [*([first] if pattern.before is None else pattern.before), {**_BYTE_LEVEL, **rest}]
    return {"type": "Sequence", "pretokenizers": steps} if len(steps) > 1 else steps[0]


_NAMES = {"add_prefix_space": "add_prefix_space", **TOKENS}


@dataclass(frozen=True)
class BytePairArguments:
    """The arguments of `BytePairTokenizer`, which explains them, and their defaults."""

    vocabulary: str | Path | Mapping[str, int] | Sequence[str]
    merges: str | Path | Sequence[str] | Sequence[tuple[str, str]]
    add_prefix_space: bool = False
    special_tokens_in_text: bool = False
    unk_token: str = "<unk>"
    cls_token: str = "<s>"
    sep_token: str = "</s>"
    pad_token: str = "<pad>"
    mask_token: str = "<mask>"
    # Of the rest, transformers' RobertaTokenizer supports no other values:
    more_special_tokens: Sequence[str] = ()
    added_tokens: Sequence[str] = ()
    normalization: str | None = None
    separators: int = 2
    second_type_id: int = 0
    second_cls: bool = False
    split: str = "gpt2"
    ignore_merges: bool = False
    packing: str = "special"


_OF_ROBERTA = [each.name for each in fields(BytePairArguments)]
_OF_ROBERTA = _OF_ROBERTA[_OF_ROBERTA.index("more_special_tokens") :]


def read_files(tokenizer_files: TokenizerFiles) -> dict[str, Any]:
    """Reads the arguments of `BytePairTokenizer`; of RoBERTa's `tokenizer.json` only what transformers 5 follows."""
    path = tokenizer_files.choose_file(*([IDS] if (tokenizer_files.directory / MERGES).is_file() else []))
    arguments: dict[str, Any] = {}
    if path.name == ALL_IN_ONE or tokenizer_files.has_tokenizer_json:
        is_roberta = tokenizer_files.has_tokenizer_json and tokenizer_files.rebuilt_class == "RobertaTokenizer"
        read = (
            functools.partial(_rebuild_roberta, tokenizer_files.settings(TOKENS)) if is_roberta else _arguments_of_file
        )
        arguments = tokenizer_files.arguments("BPE", read)
    if path.name == IDS:
        arguments |= {"vocabulary": path, "merges": tokenizer_files.directory / MERGES}
    arguments |= tokenizer_files.settings(_NAMES, arguments.get("added_tokens", ()))
    if tokenizer_files.has_one_type:
        arguments["second_type_id"] = 0
    if path.name == ALL_IN_ONE and "pad_token" in arguments:
        # Bytes cover all text, so the unknown token is never used. Llama 3's files name none.
        arguments.setdefault("unk_token", arguments["pad_token"])
    return tokenizer_files.with_special_tokens(arguments)


def _rebuild_roberta(names: dict[str, str], path: Path, content: dict[str, Any]) -> dict[str, Any]:
    """Reads a `tokenizer.json` as transformers' RobertaTokenizer does: its vocabulary, merges and added tokens."""
    ids = tokenizer_json.tokens_of_file(path, content)
    cls, sep = (names.get(name, default) for name, default in (("cls_token", "<s>"), ("sep_token", "</s>")))
    if missing := [token for token in (cls, sep) if token not in ids]:
        raise ValueError(f"{path} has no {missing[0]}, a special token of its RobertaTokenizer")
    model = {key: content["model"].get(key) for key in ("type", "vocab", "merges")}
    packing = tokenizer_json.template((cls, ids.index(cls)), (sep, ids.index(sep)), 2, 0)
    settings = {"normalizer": None, "pre_tokenizer": pre_tokenizer_of("gpt2", False), "post_processor": packing}
    rebuilt = _arguments_of_file(path, {**content, **settings, "model": model})
    try:
        given = _arguments_of_file(path, content)
        ignored = [f"{key} {given.get(key)!r}" for key in rebuilt if given.get(key) != rebuilt[key]]
    except ValueError as error:
        ignored = [str(error).removeprefix(f"{path} ")]
    if ignored:
        warnings.warn(
            f"{path}: {', '.join(ignored)} is not followed, as transformers makes a RobertaTokenizer of the vocabulary "
            f"and {CONFIG} alone; to follow the file, set its tokenizer_class to {ANY_CLASS!r}",
            stacklevel=2,
        )
    return rebuilt


def merges_in_files(tokenizer_files: TokenizerFiles) -> Iterator[tuple[Path, Any]]:
    """Yields the path of each file with merges, and its merges. For a `merges.txt`, yields the path twice."""
    if (path := tokenizer_files.directory / MERGES).is_file():
        yield path, path
    if tokenizer_files.has_tokenizer_json and tokenizer_files.type == "BPE":
        yield tokenizer_files.tokenizer_json_path, tokenizer_files.tokenizer_json["model"].get("merges") or []


def write_files(directory: str | Path, arguments: dict[str, Any], overwrite: bool) -> None:
    """Writes the files of a RobertaTokenizer, or `tokenizer.json` for what it does not support."""
    entries = {key: arguments[argument] for argument, key in _NAMES.items()}
    entries["mask_token"] = tokenizer_json.mask_with_space(entries["mask_token"])
    if any((arguments[name] or None) != (getattr(BytePairArguments, name) or None) for name in _OF_ROBERTA):
        if entries["unk_token"] == entries["pad_token"]:
            del entries["unk_token"]  # never used, see `read_files`
        types = ["token_type_ids"] if arguments["second_type_id"] else []
        config = {"tokenizer_class": ANY_CLASS, **entries, "model_input_names": ["input_ids", *types, "attention_mask"]}
        texts = {ALL_IN_ONE: files.to_json(json_of(arguments))}
    else:
        config = {"tokenizer_class": "RobertaTokenizer", **entries}
        vocabulary = {token: index for index, token in enumerate(arguments["vocabulary"])}
        merges = "".join(f"{line}\n" for line in ("#version: 0.2", *arguments["merges"]))
        texts = {IDS: files.to_json(vocabulary), MERGES: merges}
    tokenizer_json.write_tokenizer(directory, {**texts, CONFIG: files.to_json(config)}, overwrite)


def _arguments_of_file(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    files.check_json(content, {"model": {"merges": list}}, path)
    model = content["model"]
    normalizers = tokenizer_json.normalizers_of(content)
    normalization = tokenizer_json.types_of(normalizers)
    steps = tokenizer_json.pre_tokenizers_of(content)
    split = split_of_file(path, steps)
    tokenizer_json.refuse(
        path,
        ("normalizes with", normalization, "NFC" if normalizers else None),
        ("has dropout", model.get("dropout") or None, None),
        ("marks continuing tokens with", model.get("continuing_subword_prefix") or "", ""),
        ("marks the ends of words with", model.get("end_of_word_suffix") or "", ""),
    )
    return {
        **tokenizer_json.arguments_of_file(path, content),
        "merges": model["merges"],
        "add_prefix_space": bool(steps[-1].get("add_prefix_space")),
        "normalization": normalization,
        "split": split,
        "ignore_merges": bool(model.get("ignore_merges")),
    }


def json_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """Makes the content of a `tokenizer.json` from a tokenizer's `get_config()`."""
    return tokenizer_json.content_of(
        arguments,
        normalizer={"type": arguments["normalization"]} if arguments["normalization"] else None,
        pre_tokenizer=pre_tokenizer_of(arguments["split"], arguments["add_prefix_space"]),
        decoder=pre_tokenizer_of("gpt2", arguments["add_prefix_space"]),
        model={
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": arguments["ignore_merges"],
            "vocab": {token: index for index, token in enumerate(arguments["vocabulary"])},
            "merges": [merge.split(" ") for merge in arguments["merges"]],
        },
        with_space=arguments["mask_token"],
    )
