"""The parts of Hugging Face's tokenizer files that all types of tokenizers share: steps, added tokens, templates."""

import itertools
import reprlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.formats import model_files
from keras_bert.formats.families import SENTENCEPIECE_FILES

VOCABULARY = "vocab.txt"
CONFIG = "tokenizer_config.json"
IDS, MERGES = "vocab.json", "merges.txt"
ALL_IN_ONE = "tokenizer.json"
# The first of these files in a directory determines the type of the tokenizer, spelled as in tokenizer.json.
TYPES = {
    **dict.fromkeys(SENTENCEPIECE_FILES, "Unigram"),
    IDS: "BPE",
    VOCABULARY: "WordPiece",
}

# Argument of this package's tokenizers -> key in tokenizer_config.json.
TOKENS = {f"{name}_token": f"{name}_token" for name in ("unk", "cls", "sep", "pad", "mask")}
ANY_CLASS = "PreTrainedTokenizerFast"  # the class of transformers that reads everything from tokenizer.json
_TEMPLATE = ([{str: {"id": str, "type_id": int}}], None)
_PROCESSOR = {
    "type": str,
    "cls": ([str, int], None),
    "sep": ([str, int], None),
    "single": _TEMPLATE,
    "pair": _TEMPLATE,
    "special_tokens": ({str: {"ids": [int]}}, None),
}
# A step of a normalizer or a pre-tokenizer; STEPS also allows a sequence of steps.
_STEP = {
    "type": str,
    **dict.fromkeys(("add_prefix_space", "use_regex", "invert"), (bool, None)),
    "behavior": (str, None),
    "pattern": ({str: str}, None),
}
STEPS = {**_STEP, "normalizers": ([_STEP], None), "pretokenizers": ([_STEP], None)}
# Settings that restrict where an added token is matched in a text.
_FLAGS = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), (bool, None))
JSON_SHAPE = {
    "model": {
        "type": (str, None),
        "vocab": {str: int},
        "unk_token": (str, None),
        "max_input_chars_per_word": (int, None),
        "merges": (list, None),
    },
    "added_tokens": ([{"id": int, "content": str, "special": bool, **_FLAGS}], None),
    "normalizer": (STEPS, None),
    "pre_tokenizer": (STEPS, None),
    "post_processor": ({**_PROCESSOR, "processors": ([_PROCESSOR], None)}, None),
    "truncation": ({"direction": (str, None)}, None),
    "padding": ({"pad_token": (str, None)}, None),
}
# The keys of each part of a `tokenizer.json` that are obeyed, refused if their value is another one, or without effect:
# `version`, the `decoder`, offsets (`trim_offsets`), what happens to unknown bytes (there are none), how long and how a
# training cut and padded texts (the model's own length decides; padding is masked on either side). Others are refused.
_KEYS = {
    "": "version truncation padding added_tokens normalizer pre_tokenizer post_processor decoder model",
    "model": "type vocab merges unk_token continuing_subword_prefix end_of_word_suffix max_input_chars_per_word "
    "dropout fuse_unk byte_fallback ignore_merges unk_id",
    "truncation": "direction max_length strategy stride",
    "padding": "strategy direction pad_to_multiple_of pad_id pad_type_id pad_token",
    "added_tokens": "id content single_word lstrip rstrip normalized special",
    "normalizer": "type normalizers clean_text handle_chinese_chars strip_accents lowercase precompiled_charsmap "
    "pattern content prepend strip_left strip_right",
    "pre_tokenizer": "type pretokenizers add_prefix_space trim_offsets use_regex pattern behavior invert replacement "
    "prepend_scheme split str_rep individual_digits",
    "post_processor": "type processors sep cls trim_offsets add_prefix_space use_regex single pair special_tokens",
}


def check_keys(path: Path, content: dict[str, Any]) -> None:
    """Raises ValueError if a `tokenizer.json` has a key that is not in `_KEYS`."""
    inner = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "post_processor": "processors"}
    for place, known in _KEYS.items():
        part = content.get(place) or {} if place else content
        parts = part if isinstance(part, list) else [part, *(part.get(inner.get(place, "")) or [])]
        if unknown := next((key for each in parts for key in each if key not in known.split()), None):
            where = f"{place}.{unknown}" if place else unknown
            raise ValueError(f"{path} has the setting {where}, which is unknown here: ids might differ")


def mask_with_space(token: str) -> dict[str, object]:
    """Makes the entry of `tokenizer_config.json` for a mask token that includes the space before it."""
    return {"__type": "AddedToken", "content": token, "lstrip": True, "special": True}


def write_tokenizer(directory: str | Path, texts: Mapping[str, str | bytes], overwrite: bool) -> None:
    """Writes the files of a tokenizer. They replace the files of another tokenizer."""
    with model_files.replacing(Path(directory), model_files.TOKENIZER, texts, overwrite):
        files.write_texts(directory, texts)


def added_entries(
    ids: Mapping[str, int], special: Iterable[str], others: Iterable[str] = (), with_space: str | None = None
) -> list[dict[str, object]]:
    """Makes the `added_tokens` of a `tokenizer.json`; `with_space` is the token that includes the space before it."""
    is_special = dict.fromkeys(others, False) | dict.fromkeys(special, True)
    return [
        {
            "id": ids[token],
            "content": token,
            "single_word": False,
            "lstrip": token == with_space,
            "rstrip": False,
            "normalized": not is_special[token],
            "special": is_special[token],
        }
        for token in sorted(is_special, key=ids.__getitem__)
    ]


def refuse(path: Path, *settings: tuple[str, object, object]) -> None:
    """Raises ValueError for the first unsupported setting. Each is (what the file does, its value, supported value)."""
    for description, value, supported in settings:
        if value != supported:
            value, supported = reprlib.repr(value), reprlib.repr(supported)
            raise ValueError(
                f"{path} {description} {value}, where the tokenizer here has {supported}: ids would differ"
            )


def normalizers_of(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Lists the steps of the normalizer in a `tokenizer.json`."""
    return _steps_of(content.get("normalizer"), "normalizers")


def pre_tokenizers_of(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Lists the steps of the pre-tokenizer in a `tokenizer.json`."""
    return _steps_of(content.get("pre_tokenizer"), "pretokenizers")


def _steps_of(value: dict[str, Any] | None, key: str) -> list[dict[str, Any]]:
    if value is None:
        return []
    if value["type"] != "Sequence":
        return [value]
    return [step for each in value.get(key) or [] for step in _steps_of(each, key)]


def types_of(steps: Iterable[dict[str, Any]]) -> str | None:
    """Joins the types of steps with commas. None if there are no steps."""
    return ", ".join(step["type"] for step in steps) or None


def added_tokens_of_file(path: Path, content: dict[str, Any]) -> list[str]:
    """Lists the added tokens that are not special. Raises ValueError if they match only in some places of a text."""
    tokens = [token for token in content.get("added_tokens") or [] if not token["special"]]
    for token in tokens:
        name = f"asks that the added token {token['content']!r:.60}"
        refuse(
            path,
            (f"{name} be a word by itself, single_word:", bool(token.get("single_word")), False),
            (f"{name} include the white space before it, lstrip:", bool(token.get("lstrip")), False),
            (f"{name} include the white space after it, rstrip:", bool(token.get("rstrip")), False),
            (f"{name} be matched in normalized text, normalized:", token.get("normalized", True), True),
        )
    return [token["content"] for token in tokens]


def tokens_of_file(path: Path, content: dict[str, Any]) -> list[str]:
    """Lists the vocabulary of a `tokenizer.json` with added tokens, by ids, which must be 0, 1, 2, ..."""
    added = content.get("added_tokens") or []
    ids = content["model"]["vocab"] | {token["content"]: token["id"] for token in added}
    vocabulary = sorted(ids, key=ids.get)
    if [ids[token] for token in vocabulary] != list(range(len(ids))):
        raise ValueError(f"the ids of the vocabulary in {path} are not 0 to {len(ids) - 1}")
    return vocabulary


def arguments_of_file(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    """Reads the arguments that WordPiece and byte-pair encoding share: tokens, special tokens, and the packing."""
    vocabulary = tokens_of_file(path, content)
    packing = packing_of_file(path, content, vocabulary)
    added = added_tokens_of_file(path, content)
    return {"vocabulary": vocabulary, **special_tokens_of_file(content), **packing, "added_tokens": added}


def content_of(
    arguments: Mapping[str, Any],
    *,
    normalizer: dict[str, object] | None,
    pre_tokenizer: dict[str, object],
    decoder: dict[str, object],
    model: Mapping[str, object],
    with_space: str | None = None,
) -> dict[str, Any]:
    """Makes a `tokenizer.json` from these parts and the arguments that WordPiece and byte-pair encoding share."""
    ids = {token: index for index, token in enumerate(arguments["vocabulary"])}
    special = (*(arguments[name] for name in TOKENS), *arguments["more_special_tokens"])
    cls, sep = ((arguments[name], ids[arguments[name]]) for name in ("cls_token", "sep_token"))
    pair = (arguments["separators"], arguments["second_type_id"], arguments.get("second_cls", False))
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added_entries(ids, special, arguments["added_tokens"], with_space),
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": template(cls, sep, *pair) if arguments["packing"] == "special" else None,
        "decoder": decoder,
        "model": model,
    }


def words_before(vocabulary: Sequence[str], special: Collection[str]) -> int:
    """Counts the tokens before the special ones at the end of a vocabulary, which no text contains as words."""
    return max((index + 1 for index, token in enumerate(vocabulary) if token not in special), default=0)


def template(
    cls: tuple[str, int], sep: tuple[str, int], separators: int, second_type_id: int, second_cls: bool = False
) -> dict[str, object]:
    """Makes a `post_processor`: `[CLS] a [SEP]`, and for pairs `[CLS] a` + separators + ([CLS]) + `b [SEP]`."""

    def parts(*names: tuple[str, int]) -> list[dict[str, object]]:
        return [
            {"Sequence" if name in ("A", "B") else "SpecialToken": {"id": name, "type_id": type_id}}
            for name, type_id in names
        ]

    first = [(cls[0], 0), ("A", 0), (sep[0], 0)]
    second = [*[(cls[0], second_type_id)] * second_cls, ("B", second_type_id), (sep[0], second_type_id)]
    return {
        "type": "TemplateProcessing",
        "single": parts(*first),
        "pair": parts(*first, *[(sep[0], 0)] * (separators - 1), *second),
        "special_tokens": {name: {"id": name, "ids": [index], "tokens": [name]} for name, index in (cls, sep)},
    }


# Type of a post-processor -> `separators`, `second_type_id` and `second_cls`, as in `template`.
_PROCESSORS = {"BertProcessing": (1, 1, False), "RobertaProcessing": (2, 0, False)}


def packing_of_file(path: Path, content: dict[str, Any], vocabulary: list[str]) -> dict[str, Any]:
    """Reads `cls_token`, `sep_token` and the arguments of `template` from a `post_processor`."""
    if packing := content.get("packing"):  # of static vectors, see `TokenizerFiles.arguments`
        return {"packing": packing}
    processor = content.get("post_processor") or {}
    # In a post-processor, ByteLevel changes offsets, but no ids.
    steps = [step for step in processor.get("processors") or [] if step["type"] != "ByteLevel"]
    if processor.get("type") == "Sequence" and len(steps) == 1:
        (processor,) = steps
    if processor.get("type") in _PROCESSORS and processor.get("cls") and processor.get("sep"):
        cls, sep = processor["cls"], processor["sep"]
        pairs = [_PROCESSORS[processor["type"]]]
    else:
        single = [key for part in processor.get("single") or [] for key in part.values()]
        ids = processor.get("special_tokens") or {}
        first, last = (single[0]["id"], single[-1]["id"]) if single else ("", "")
        cls, sep = ((token, next(iter(ids.get(token, {}).get("ids", ())), -1)) for token in (first, last))
        packings = [*itertools.product((1, 2), (0, 1), (False,)), (1, 0, True), (1, 1, True)]
        templates = {pair: template(cls, sep, *pair) for pair in packings}
        pairs = [
            pair
            for pair, expected in templates.items()
            if all(processor.get(key) == expected[key] for key in ("type", "single", "pair"))
        ]
    if not pairs or any(i not in range(len(vocabulary)) or vocabulary[i] != token for token, i in (cls, sep)):
        raise ValueError(
            f"{path}: its post_processor is {reprlib.repr(content.get('post_processor'))}, which packs texts neither "
            "as [CLS] a [SEP] b [SEP] nor as <s> a </s></s> b </s>: ids would differ"
        )
    separators, second_type_id, second_cls = pairs[0]
    values = {"cls_token": cls[0], "sep_token": sep[0], "separators": separators, "second_type_id": second_type_id}
    return values | ({"second_cls": True} if second_cls else {})


def special_tokens_of_file(content: dict[str, Any]) -> dict[str, str]:
    """Finds the tokens "unk", "pad", "mask": as the file names them, else a special `<unk>`, `[UNK]`, `<|unk|>`."""
    special = {token["content"] for token in content.get("added_tokens") or [] if token["special"]}
    declared = {"unk": content["model"].get("unk_token"), "pad": (content.get("padding") or {}).get("pad_token")}
    names = {
        name: (declared.get(name), f"<{name}>", f"[{name.upper()}]", f"<|{name}|>") for name in ("unk", "pad", "mask")
    }
    special.add(declared["pad"] or "")
    candidates = {
        name: [each for each in spellings if each is not None and each in special] for name, spellings in names.items()
    }
    return {f"{name}_token": spellings[0] for name, spellings in candidates.items() if spellings}
