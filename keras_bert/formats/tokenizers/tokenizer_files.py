"""The files of a tokenizer in a directory, under the names of Hugging Face and KerasHub."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.formats.families import FAMILIES
from keras_bert.formats.libraries import keras_hub
from keras_bert.formats.model_files import VOCABULARIES
from keras_bert.formats.row_translator import check_fixed_values, warn_of_unknown
from keras_bert.formats.tensorflow import saved_model
from keras_bert.formats.tokenizers import tokenizer_json
from keras_bert.formats.tokenizers.tokenizer_json import (
    ALL_IN_ONE,
    ANY_CLASS,
    CONFIG,
    IDS,
    JSON_SHAPE,
    TOKENS,
    TYPES,
    VOCABULARY,
)
from keras_bert.presets import PresetFiles

_ADDED, _SPECIAL = "added_tokens.json", "special_tokens_map.json"
_SWITCHES = ("do_lower_case", "keep_accents", "strip_accents", "tokenize_chinese_chars", "add_prefix_space")
_TOKEN = (str, {"content": str})
_MORE_TOKENS = ("additional_special_tokens", "extra_special_tokens", "model_specific_special_tokens")
_NAMES_SHAPE = {
    **dict.fromkeys((*TOKENS.values(), "bos_token", "eos_token"), (*_TOKEN, None)),
    **dict.fromkeys(_MORE_TOKENS, ([_TOKEN], {str: _TOKEN}, None)),
}
# Classes of transformers 5 that follow tokenizer.json. The others make a tokenizer of its vocabulary alone.
_FOLLOWING = ("", ANY_CLASS, "PreTrainedTokenizer", "TokenizersBackend")
# Type of a model -> the class that transformers 5 takes if `tokenizer_config.json` names none.
_CLASS_OF_MODEL = {"convbert": "BertTokenizer"} | {name: each.tokenizer_class for name, each in FAMILIES.items()}
_CONFIG_SHAPE = {
    **_NAMES_SHAPE,
    **dict.fromkeys((*_SWITCHES, "do_basic_tokenize"), (bool, None)),
    **dict.fromkeys(("tokenizer_class", "word_tokenizer_type", "subword_tokenizer_type"), (str, None)),
    "max_input_chars_per_word": (int, None),
    "never_split": ([str], None),
    "model_input_names": ([str], None),
    "added_tokens_decoder": ({str: {"content": str, "special": (bool, None)}}, None),
}
# Settings that change ids -> their only supported values.
_FIXED_CONFIG = {
    "do_basic_tokenize": True,
    "never_split": [],
    "word_tokenizer_type": "basic",
    "subword_tokenizer_type": "wordpiece",
    "do_word_tokenize": True,
    "do_subword_tokenize": True,
    "wordpieces_prefix": "##",
    "clean_text": True,
    "remove_space": True,
    "normalization": False,  # of tweets
    "split_by_punct": False,
    "sp_model_kwargs": {},
    "truncation_side": "right",
}
# Keys that do not change ids. Padding is masked on either side. Each call says how it truncates. Tokenizers of words
# that need `mecab_kwargs` and the like are refused by their `word_tokenizer_type`.
_WITHOUT_EFFECT = (
    "__type", "_commit_hash", "auto_map", "backend", "chat_template", "clean_up_tokenization_spaces",
    "decode_with_prefix_space", "errors", "from_slow", "init_inputs", "is_local", "jumanpp_kwargs", "legacy",
    "local_files_only", "max_length", "mecab_kwargs", "merges_file", "model_max_length", "name_or_path",
    "pad_to_multiple_of", "pad_token_type_id", "padding", "padding_side", "processor_class", "return_tensors",
    "special_tokens_map_file", "split_special_tokens", "stride", "sudachi_kwargs", "tokenizer_file", "trim_offsets",
    "truncation", "truncation_strategy", "unk_id", "use_fast", "vocab_file", "vocab_size", "vocab_type",
)  # fmt: skip
KNOWN_CONFIG = frozenset([*_CONFIG_SHAPE, *_FIXED_CONFIG, *_WITHOUT_EFFECT])


class TokenizerFiles:
    """The files of a preset's tokenizer. Each is read once, when it is needed, because vocabularies are large."""

    def __init__(self, preset: PresetFiles) -> None:
        self._preset = preset
        has_own = any((preset.directory / name).is_file() for name in VOCABULARIES)
        assets = None if has_own else saved_model.tokenizer_assets(preset)
        self.directory, self._config = (preset.directory, None) if assets is None else assets
        self.tokenizer_json_path = self.directory / ALL_IN_ONE

    def find_vocabulary(self) -> Path:
        """Finds a file with the vocabulary. Raises FileNotFoundError if there is none."""
        return files.find(self.directory, *VOCABULARIES, advice="copy the files of the model's tokenizer there")

    @functools.cached_property
    def tokenizer_json(self) -> dict[str, Any]:
        """The content of `tokenizer.json`. Raises FileNotFoundError, or ValueError if it is damaged."""
        return self._preset.json(ALL_IN_ONE)

    @functools.cached_property
    def config(self) -> dict[str, Any]:
        """The content of `tokenizer_config.json`; empty if there is none. Raises ValueError if it is damaged."""
        return self._preset.json_if_there(CONFIG, _CONFIG_SHAPE) if self._config is None else self._config

    @property
    def model_type(self) -> str | None:
        """The family of the model that `config.json` names, if there is one."""
        return self._preset.json_if_there("config.json").get("model_type")

    @functools.cached_property
    def special_names(self) -> dict[str, Any]:
        """The content of `special_tokens_map.json`, of older versions; empty if there is none. Raises as `config`."""
        return self._preset.json_if_there(_SPECIAL, _NAMES_SHAPE)

    @functools.cached_property
    def has_tokenizer_json(self) -> bool:
        """Whether there is a `tokenizer.json` of Hugging Face. Raises ValueError if it is damaged."""
        return (
            self.tokenizer_json_path.is_file()
            and keras_hub.tokenizer_type(self.tokenizer_json_path, self.tokenizer_json) is None
        )

    @functools.cached_property
    def ids(self) -> dict[str, dict[str, int]]:
        """The tokens and ids that each file lists, by file name. Raises ValueError if a file is damaged."""
        readers = {
            VOCABULARY: lambda path: {token: i for i, token in enumerate(files.split_lines(files.read_text(path)))},
            IDS: lambda path: self._preset.json(IDS, {str: int}),
            ALL_IN_ONE: lambda path: (
                _ids_of_tokenizer_json(path, self.tokenizer_json) if self.has_tokenizer_json else {}
            ),
            _ADDED: lambda path: self._preset.json(_ADDED, {str: int}),
            CONFIG: lambda path: _ids_of_config(path, self.config),
        }
        paths = {name: self.directory / name for name in readers}
        return {name: readers[name](path) for name, path in paths.items() if path.is_file()}

    @property
    def has_one_type(self) -> bool:
        """Whether the model has no input for types, so that the second text of a pair has the type of the first."""
        inputs = self.config.get("model_input_names")
        return inputs is not None and "token_type_ids" not in inputs

    @property
    def rebuilt_class(self) -> str | None:
        """The class of transformers 5 that follows only the vocabulary; None if it follows `tokenizer.json`."""
        config = self._preset.json_if_there("config.json", {"tokenizer_class": (str, None), "model_type": (str, None)})
        model_type = config.get("model_type")
        name = (
            self.config.get("tokenizer_class") or config.get("tokenizer_class") or _CLASS_OF_MODEL.get(model_type, "")
        )
        name = name.removesuffix("Fast")
        follows = model_type in FAMILIES and FAMILIES[model_type].follows_tokenizer_json
        return None if name in _FOLLOWING or follows else name

    @property
    def packing(self) -> str:
        """How the family packs texts into rows, one of `PACKINGS`."""
        packing = FAMILIES[self.model_type].packing if self.model_type in FAMILIES else "special"
        # model2vec leaves out the token that the file names as unknown. Most of byte pairs name none.
        model = self.tokenizer_json["model"] if packing == "known" else {}
        return "plain" if model and not model.get("unk_token") and model.get("unk_id") is None else packing

    @property
    def kind(self) -> str:
        """The type of the tokenizer, one of `TYPES`, by the names of files or by `tokenizer.json`."""
        if self.packing != "special":  # static vectors
            return self.check_type("WordPiece", "BPE", "Unigram")
        path = files.find(self.directory, *TYPES, ALL_IN_ONE, advice="copy the files of the model's tokenizer there")
        return TYPES.get(path.name) or self.check_type(*dict.fromkeys(reversed(TYPES.values())))

    @property
    def type(self) -> str | None:
        """The type of the tokenizer in `tokenizer.json`, Hugging Face's or KerasHub's."""
        if (kind := keras_hub.tokenizer_type(self.tokenizer_json_path, self.tokenizer_json)) is not None:
            return kind
        files.check_json(self.tokenizer_json, {"model": {"type": (str, None)}}, self.tokenizer_json_path)
        return self.tokenizer_json["model"].get("type") or ("BPE" if "merges" in self.tokenizer_json["model"] else None)

    def check_type(self, *supported: str) -> str:
        """Returns the `type`; without one, what is supported if that is one. Raises ValueError for another one."""
        kind = supported[0] if self.type is None and len(supported) == 1 else self.type
        if kind is None or kind not in supported:
            path, name = self.tokenizer_json_path, self.tokenizer_json.get("class_name", "tokenizer")  # KerasHub's
            raise ValueError(f"{path} holds a {name} of type {kind}, not {', '.join(supported)}")
        return kind

    def choose_file(self, *names: str) -> Path:
        """Chooses the vocabulary: the first of `names` in the directory, or `tokenizer.json` if it has more tokens."""
        path = files.find(self.directory, *names, ALL_IN_ONE)
        if path == self.tokenizer_json_path or not self.tokenizer_json_path.is_file():
            return path
        has_added_tokens = next(self._added_tokens(), None) is not None
        has_more = len(self.ids[ALL_IN_ONE]) > len(self.ids[path.name])
        return self.tokenizer_json_path if has_added_tokens or has_more else path

    def check(self, vocabulary: Sequence[str], special_tokens: Mapping[str, str]) -> None:
        """Raises ValueError if a file contradicts the tokenizer that was read: programs differ in which they follow."""
        id_of_token = {token: index for index, token in enumerate(vocabulary)}
        for name, ids in self.ids.items():
            # Compare token by token only if some differ: a vocabulary has tens of thousands.
            for token, index in () if ids.items() <= id_of_token.items() else ids.items():
                known = vocabulary[index] if 0 <= index < len(vocabulary) else None
                if token not in ("", known) and not (known is None and self._is_unused(name, token)):
                    self._refuse(name, f"{token!r:.60} as token {index}", known)
        if self.has_tokenizer_json and len(self.ids[ALL_IN_ONE]) < len(vocabulary):
            for token in vocabulary:
                if token not in self.ids[ALL_IN_ONE] and token not in self._names_of_special_tokens():
                    self._refuse(ALL_IN_ONE, f"no token {token!r:.60}", token)
        for key, token in special_tokens.items():
            for name, content in ((CONFIG, self.config), (_SPECIAL, self.special_names)):
                if _content(content.get(key)) not in (None, token):
                    self._refuse(name, f"{_content(content[key])!r:.60} as {key}", token)

    def _is_unused(self, name: str, token: str) -> bool:
        """Checks whether a token that the tokenizer lacks is special, so that no text contains it."""
        if name in (_ADDED, CONFIG):
            return True  # `settings` refuses tokens of these files that are not special
        return name == ALL_IN_ONE and token in self._ids_of_special_tokens()

    def _refuse(self, name: str, content: str, known: str | None) -> None:
        others = [each for each in VOCABULARIES if each != name and (self.directory / each).is_file()]
        raise ValueError(
            f"{self.directory / name} has {content}, but {' and '.join(others) or 'the tokenizer'} "
            f"{'have' if len(others) > 1 else 'has'} {'none' if known is None else repr(known)[:60]}: these files "
            "contradict each other; keep the files of the tokenizer that the model was trained with"
        )

    def settings(self, names: Mapping[str, str], added_tokens: Collection[str] = ()) -> dict[str, Any]:
        """Reads `names` (argument -> key) from `tokenizer_config.json`, and special tokens from older files."""
        for source, token in self._added_tokens():
            if token not in added_tokens:
                raise ValueError(
                    f"{source} has the added token {token!r:.60}, which is not special; such tokens are "
                    f"supported only in {ALL_IN_ONE}"
                )
        check_fixed_values(self.config, _FIXED_CONFIG, self.directory / CONFIG)
        warn_of_unknown(self.config, KNOWN_CONFIG, self.directory / CONFIG)
        entries = {**{key: self.special_names.get(key) for key in TOKENS.values()}, **self.config}
        return {argument: _content(entries[key]) for argument, key in names.items() if entries.get(key) is not None}

    def arguments(self, kind: str, arguments_of: Callable[[Path, dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        """Reads the arguments of a tokenizer of type `kind` from `tokenizer.json`, Hugging Face's or KerasHub's."""
        self.check_type(kind)
        if (arguments := keras_hub.tokenizer_arguments(self.tokenizer_json_path, self.tokenizer_json)) is not None:
            return arguments
        files.check_json(self.tokenizer_json, JSON_SHAPE, self.tokenizer_json_path)
        self.check_keys()
        if self.packing != "special":  # a post_processor would have no effect
            content = {**self.tokenizer_json, "packing": self.packing}
            arguments = arguments_of(self.tokenizer_json_path, content)
            unknown = arguments.get("unk_token", arguments.get("pad_token", arguments["vocabulary"][0]))
            return {**dict.fromkeys(TOKENS, unknown), **arguments}  # the vocabulary may lack [CLS] and others
        arguments = arguments_of(self.tokenizer_json_path, self.tokenizer_json)
        declared = {key: arguments.get(key) for key in ("cls_token", "sep_token")}  # of its post_processor
        declared["unk_token"] = self.tokenizer_json["model"].get("unk_token")
        declared["pad_token"] = (self.tokenizer_json.get("padding") or {}).get("pad_token")
        for key, token in declared.items():
            if token is not None and (named := self._named(key)) not in (None, token):
                self._refuse(CONFIG if self.config.get(key) else _SPECIAL, f"{named!r:.60} as {key}", token)
        return arguments

    def check_keys(self) -> None:
        """Raises ValueError if `tokenizer.json` has an unknown key or one that cuts off the beginning of texts."""
        files.check_json(self.tokenizer_json, {**JSON_SHAPE, "model": dict}, self.tokenizer_json_path)
        tokenizer_json.check_keys(self.tokenizer_json_path, self.tokenizer_json)
        side = self.config.get("truncation_side") or (self.tokenizer_json.get("truncation") or {}).get("direction")
        if side not in (None, "right", "Right"):
            raise ValueError(f"{self.tokenizer_json_path}: truncation.direction is {side!r}; only 'Right' is supported")

    def with_special_tokens(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Adds `more_special_tokens` to a tokenizer's arguments, and those of them that it lacks to its vocabulary."""
        special, new = self.more_special_tokens(arguments, lambda: tokens_of(arguments["vocabulary"]))
        vocabulary = {"vocabulary": [*tokens_of(arguments["vocabulary"]), *new]} if new else {}
        return {**arguments, "more_special_tokens": special, **vocabulary}

    def more_special_tokens(
        self, arguments: dict[str, Any], read_vocabulary: Callable[[], Collection[str]]
    ) -> tuple[list[str], list[str]]:
        """Finds the special tokens that `arguments` does not name, by id; and those that the vocabulary lacks."""
        named = {arguments[key] for key in TOKENS if key in arguments}
        ids = {token: index for token, index in self._ids_of_special_tokens().items() if token not in named}
        if not ids:
            return [], []
        vocabulary = read_vocabulary()
        known = {token: index for index, token in enumerate(vocabulary) if token in ids}
        new = sorted((index, token) for token, index in ids.items() if token not in known and index is not None)
        listed = [
            token for token in self._names_of_special_tokens() if token not in known and ids.get(token, 0) is None
        ]
        tokens = [*(token for _, token in new), *listed]
        if [index for index, _ in new] != list(range(len(vocabulary), len(vocabulary) + len(new))):
            raise ValueError(
                f"{self.directory}: the added tokens {', '.join(f'{token!r:.60} ({i})' for i, token in new[:3])} have "
                f"ids that do not follow those of the vocabulary, which end at {len(vocabulary) - 1}"
            )
        rows = self._preset.json_if_there("config.json").get("vocab_size")
        if isinstance(rows, int) and len(vocabulary) <= rows < len(vocabulary) + len(tokens):
            tokens, unused = tokens[: rows - len(vocabulary)], tokens[rows - len(vocabulary) :]
            warnings.warn(
                f"{self.directory}: the special tokens {', '.join(map(repr, unused[:3]))} are left out, because the "
                f"model's embedding table has only {rows} rows",
                stacklevel=2,
            )
        return [*sorted(known, key=known.__getitem__), *tokens], tokens

    def check_flags(self, special_tokens: Mapping[str, str], with_space: str | None, spaces: bool) -> None:
        """Raises ValueError if special tokens match otherwise than here; with `spaces`, white space has tokens."""
        content = self.tokenizer_json if self.has_tokenizer_json else {}
        added = content.get("added_tokens") or []
        normalizers = tokenizer_json.types_of(tokenizer_json.normalizers_of(content)) or ""
        changes_tokens = any(name in normalizers for name in ("BertNormalizer", "Lowercase", "StripAccents"))
        for token in (each for each in added if each["special"]):
            expected = {"single_word": False}
            if spaces:
                expected |= {"lstrip": token["content"] == with_space, "rstrip": False}
            if changes_tokens or token["content"] not in special_tokens.values():
                expected |= {"normalized": False}
            for flag, value in expected.items():
                if bool(token.get(flag)) != value:
                    raise ValueError(
                        f"{self.tokenizer_json_path} has {flag} {token.get(flag)} for the special token "
                        f"{token['content']!r:.60}, where the tokenizer here has {value}: with "
                        "special_tokens_in_text=True, ids would differ"
                    )

    def _ids_of_special_tokens(self) -> dict[str, int | None]:
        """Finds the special tokens of all files, and their ids; None if no file gives the id."""
        ids: dict[str, int | None] = {}
        in_added = self.ids.get(_ADDED, {})  # first, because it finds damaged files
        if self.has_tokenizer_json:
            added = self.tokenizer_json.get("added_tokens") or []
            ids |= {each["content"]: each["id"] for each in added if each.get("special")}
        added = self.config.get("added_tokens_decoder") or {}
        ids |= {each["content"]: int(index) for index, each in added.items() if each.get("special")}
        names = [*self._names_of_special_tokens(), *(self._named(key) for key in ("bos_token", "eos_token"))]
        return {token: in_added.get(token) for token in names if token} | ids

    def _names_of_special_tokens(self) -> list[str]:
        """Lists the tokens in the lists of additional special tokens."""
        lists = (content.get(key) or [] for key in _MORE_TOKENS for content in (self.config, self.special_names))
        values = (each.values() if isinstance(each, dict) else each for each in lists)
        return list(dict.fromkeys(map(_content, itertools.chain(*values))))

    def _named(self, key: str) -> str | None:
        return _content(self.config.get(key) or self.special_names.get(key))

    def _added_tokens(self) -> Iterator[tuple[Path, str]]:
        """Yields the added tokens that are not special, each after its file's path."""
        added_tokens_path = self.directory / _ADDED
        if (added := self.config.get("added_tokens_decoder")) is not None:
            path = self.directory / CONFIG
            yield from ((path, each["content"]) for each in added.values() if not each.get("special"))
        elif added_tokens_path.is_file():
            special = {*self._ids_of_special_tokens(), *map(self._named, TOKENS.values())}
            yield from ((added_tokens_path, token) for token in self.ids[_ADDED] if token not in special)


def tokens_of(vocabulary: list[str] | Path) -> list[str]:
    """Lists the tokens of the argument of a tokenizer, by id."""
    if isinstance(vocabulary, list):
        return vocabulary
    if vocabulary.suffix == ".txt":
        return files.split_lines(files.read_text(vocabulary))
    ids = files.read_json(vocabulary, {str: int})
    return sorted(ids, key=ids.__getitem__)


def _content(token: Any) -> Any:
    """Returns the text of a token that a file stores as an object, and other values unchanged."""
    return token["content"] if isinstance(token, dict) else token


def _ids_of_tokenizer_json(path: Path, content: dict[str, Any]) -> dict[str, int]:
    """Reads tokens and ids from the `content` of Hugging Face's `tokenizer.json`, of any type."""
    try:
        tokens = content["model"]["vocab"]
        ids = dict(tokens) if isinstance(tokens, dict) else {token: i for i, (token, _) in enumerate(tokens)}
        return ids | {each["content"]: each["id"] for each in content.get("added_tokens") or []}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: it has no vocabulary of tokens and ids ({error!r:.60})") from None


def _ids_of_config(path: Path, content: dict[str, Any]) -> dict[str, int]:
    """Reads added tokens and their ids from the `content` of a `tokenizer_config.json`."""
    added = content.get("added_tokens_decoder") or {}
    if bad := next((index for index in added if not index.isdecimal()), None):
        raise ValueError(f"{path} has {bad!r:.60} in added_tokens_decoder; expected the ids of tokens")
    return {each["content"]: int(index) for index, each in added.items()}
