"""The files of a tokenizer in a directory, under the names of Hugging Face and KerasHub."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert import files
from keras_bert.formats import keras_hub
from keras_bert.formats.family_table import check_fixed_values, warn_of_unknown
from keras_bert.formats.hugging_face_tokenizers import ALL_IN_ONE, CONFIG, IDS, JSON_SHAPE, TOKENS, VOCABULARY
from keras_bert.formats.model_files import VOCABULARIES

if TYPE_CHECKING:
    from keras_bert.formats.preset import Preset

_ADDED, _SPECIAL = "added_tokens.json", "special_tokens_map.json"
_SWITCHES = ("do_lower_case", "keep_accents", "strip_accents", "tokenize_chinese_chars", "add_prefix_space")
_NAMES_SHAPE = dict.fromkeys(TOKENS.values(), (str, {"content": str}, None))
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
    "truncation_strategy": "longest_first",
}
# Keys that do not change ids. Padding is masked on either side. `tokenizer.json` lists all special tokens. Tokenizers
# of words that need `mecab_kwargs` and the like are refused by their `word_tokenizer_type`.
_WITHOUT_EFFECT = (
    "__type", "_commit_hash", "additional_special_tokens", "auto_map", "backend", "bos_token", "chat_template",
    "clean_up_tokenization_spaces", "decode_with_prefix_space", "eos_token", "errors", "extra_special_tokens",
    "from_slow", "init_inputs", "is_local", "jumanpp_kwargs", "legacy", "local_files_only", "max_length",
    "mecab_kwargs", "model_max_length", "model_specific_special_tokens", "name_or_path", "pad_to_multiple_of",
    "pad_token_type_id", "padding", "padding_side", "processor_class", "return_tensors", "special_tokens_map_file",
    "split_special_tokens", "stride", "sudachi_kwargs", "tokenizer_file", "trim_offsets", "truncation", "unk_id",
    "use_fast", "vocab_file", "merges_file", "vocab_size", "vocab_type",
)  # fmt: skip
KNOWN_CONFIG = frozenset([*_CONFIG_SHAPE, *_FIXED_CONFIG, *_WITHOUT_EFFECT])


class TokenizerFiles:
    """The files of a preset's tokenizer. Each file is read once, when it is needed, because vocabularies are large.

    Args:
        preset: the preset.

    Example:
        >>> from keras_bert.formats import Preset
        >>> Preset("all-MiniLM-L6-v2").tokenizer_files.settings({"lowercase": "do_lower_case"})
        {'lowercase': True}
    """

    def __init__(self, preset: Preset) -> None:
        self._preset = preset
        self.directory = preset.directory
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
        return self._preset.json_if_there(CONFIG, _CONFIG_SHAPE)

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
    def type(self) -> str | None:
        """The type of the tokenizer in `tokenizer.json`, Hugging Face's or KerasHub's."""
        if (kind := keras_hub.tokenizer_type(self.tokenizer_json_path, self.tokenizer_json)) is not None:
            return kind
        files.check_json(self.tokenizer_json, {"model": {"type": (str, None)}}, self.tokenizer_json_path)
        return self.tokenizer_json["model"].get("type") or ("BPE" if "merges" in self.tokenizer_json["model"] else None)

    def choose_file(self, *names: str) -> Path:
        """Chooses the file to read: the first existing file of `names`, or `tokenizer.json`.

        It chooses `tokenizer.json` if none of `names` exists, if the tokenizer has added tokens that are not special,
        or if `tokenizer.json` lists more tokens.

        Raises:
            FileNotFoundError: none of the files exists.
        """
        path = files.find(self.directory, *names, ALL_IN_ONE)
        if path == self.tokenizer_json_path or not self.tokenizer_json_path.is_file():
            return path
        has_added_tokens = next(self._added_tokens(), None) is not None
        has_more = len(self.ids[ALL_IN_ONE]) > len(self.ids[path.name])
        return self.tokenizer_json_path if has_added_tokens or has_more else path

    def check(self, vocabulary: Sequence[str], special_tokens: Mapping[str, str]) -> None:
        """Compares all files with the tokenizer that was read from some of them.

        Programs differ in which files they follow: transformers prefers `tokenizer.json` to others, for instance.

        Args:
            vocabulary: the tokenizer's tokens; the index is the id.
            special_tokens: name, such as "mask_token" -> token.

        Raises:
            ValueError: a file has another token for an id, lacks a token, or names another special token.
        """
        id_of_token = {token: index for index, token in enumerate(vocabulary)}
        for name, ids in self.ids.items():
            # Compare token by token only if some differ: a vocabulary has tens of thousands.
            for token, index in () if ids.items() <= id_of_token.items() else ids.items():
                known = vocabulary[index] if 0 <= index < len(vocabulary) else None
                if token not in ("", known) and not (known is None and self._is_unused(name, token)):
                    self._refuse(name, f"{token!r:.60} as token {index}", known)
        if self.has_tokenizer_json and len(self.ids[ALL_IN_ONE]) < len(vocabulary):
            for token in vocabulary:
                if token not in self.ids[ALL_IN_ONE]:
                    self._refuse(ALL_IN_ONE, f"no token {token!r:.60}", token)
        for key, token in special_tokens.items():
            for name, content in ((CONFIG, self.config), (_SPECIAL, self.special_names)):
                if _content(content.get(key)) not in (None, token):
                    self._refuse(name, f"{_content(content[key])!r:.60} as {key}", token)

    def _is_unused(self, name: str, token: str) -> bool:
        """Checks whether a token that the tokenizer lacks is special, so that no text contains it."""
        if name in (_ADDED, CONFIG):
            return True  # `settings` refuses tokens of these files that are not special
        listed_tokens = self.tokenizer_json.get("added_tokens") or [] if name == ALL_IN_ONE else []
        return any(each["content"] == token and each.get("special") for each in listed_tokens)

    def _refuse(self, name: str, content: str, known: str | None) -> None:
        others = [each for each in VOCABULARIES if each != name and (self.directory / each).is_file()]
        raise ValueError(
            f"{self.directory / name} has {content}, but {' and '.join(others) or 'the tokenizer'} "
            f"{'have' if len(others) > 1 else 'has'} {'none' if known is None else repr(known)[:60]}: these files "
            "contradict each other; keep the files of the tokenizer that the model was trained with"
        )

    def settings(self, names: Mapping[str, str], added_tokens: Collection[str] = ()) -> dict[str, Any]:
        """Reads values from `tokenizer_config.json`, if it exists, and special tokens from `special_tokens_map.json`.

        Args:
            names: argument of a tokenizer of this package -> key in the file.
            added_tokens: the added tokens in other files.

        Returns:
            Argument -> value, without those that the files lack.

        Raises:
            ValueError: the file is damaged, or has a setting that would change ids.
        """
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
        """Reads the arguments of a tokenizer of type `kind` from `tokenizer.json`, Hugging Face's or KerasHub's.

        Args:
            kind: "WordPiece", "BPE" or "Unigram".
            arguments_of: reads the arguments from the path and content of a file of Hugging Face.

        Raises:
            ValueError: the file is damaged, has another type or a setting that would change ids.
        """
        if (
            arguments := keras_hub.tokenizer_arguments(self.tokenizer_json_path, self.tokenizer_json, kind)
        ) is not None:
            return arguments
        if self.type not in (kind, None):
            raise ValueError(f"{self.tokenizer_json_path} holds a {self.type} tokenizer, not {kind}")
        files.check_json(self.tokenizer_json, JSON_SHAPE, self.tokenizer_json_path)
        return arguments_of(self.tokenizer_json_path, self.tokenizer_json)

    def _added_tokens(self) -> Iterator[tuple[Path, str]]:
        """Yields the added tokens that are not special, each after its file's path.

        Newer versions list them in `tokenizer_config.json`, older ones in `added_tokens.json`. Older ones name the
        special tokens in `special_tokens_map.json`.
        """
        added_tokens_path = self.directory / _ADDED
        if (added := self.config.get("added_tokens_decoder")) is not None:
            path = self.directory / CONFIG
            yield from ((path, each["content"]) for each in added.values() if not each.get("special"))
        elif added_tokens_path.is_file():
            declared = [*self.special_names.values(), *(self.config.get(name) for name in TOKENS.values())]
            flat = itertools.chain(*(value if isinstance(value, list) else [value] for value in declared))
            special = [value.get("content") if isinstance(value, dict) else value for value in flat]
            added = self._preset.json(_ADDED, {str: int})
            yield from ((added_tokens_path, token) for token in added if token not in special)


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
