"""Table: a layout's names for the configuration and the weights of one family."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from keras_bert.config import BertConfig, check_field
from keras_bert.fields import types_of
from keras_bert.formats.shapes import Names, exists, kinds
from keras_bert.formats.storage import Storage

# Our name of a layer, or of a single weight -> the layout's name or names.
Layers = Mapping[str, str | list[str]]

_KINDS = ("kernel", "bias", "gamma", "beta", "embeddings")
_REQUIRED = ("vocab_size", "hidden_size", "num_layers", "num_heads", "intermediate_size", "disentangled_buckets")
_SAID_BY_WEIGHTS = ("family", "pooler")  # or given by `model_type`
_READ_POOLER = ("sequence", "next_sentence")  # heads of a whole text; others read each token
_GLOBAL, _LOCAL = "full_attention", "sliding_attention"


@dataclass(frozen=True)
class Table:
    """A layout's names for the configuration and the weights of one family.

    A row of weights maps the path of a layer in our encoder or head to the layout's name of that layer. It has several
    names if our layer concatenates several of theirs (query, key and value). It has none if the layout has no such
    layer; our weights are then zeros. A row may also be a single weight ("logits/kernel"). `{i}` is the index of a
    layer, or of a group of layers.

    Example:
        >>> from keras_bert import BertConfig
        >>> from keras_bert.formats import FAMILIES
        >>> FAMILIES["bert"].parts(BertConfig.tiny())["next_sentence"]
        {'logits/kernel': ['cls.seq_relationship.weight'], 'logits/bias': ['cls.seq_relationship.bias']}
    """

    classes: str  # prefix of the family's class names in the layout's library: "Bert" of BertModel
    embeddings: Layers
    block: Layers
    endings: Mapping[str, str]  # "kernel", "bias", "gamma", "beta", "embeddings" -> suffix to the name of the layer
    last: Layers = field(default_factory=dict)  # between the last block and the pooler
    pooler: Layers = field(default_factory=dict)  # empty in a family without one
    heads: Mapping[str, Layers] = field(default_factory=dict)
    # Field of BertConfig -> key of the configuration file, where dots lead into objects. If there are several keys, the
    # first in a file is read, and all are written.
    config: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(
        default_factory=dict
    )  # keys of an older dialect, which is read but not written -> keys above
    poolings: Mapping[str, str] = field(default_factory=dict)  # the file's name -> ours; the first one is written
    keeps_two_thirds: bool = False  # whether the layer is 2/3 of the stated size, in multiples of 8
    layer_kinds: str | None = None  # the key of a list with the kind of each layer, beside that of `global_every`
    values: Mapping[str, Any] = field(default_factory=dict)  # the values of fields that the file may leave out
    activations: Mapping[str, str] = field(default_factory=dict)  # the file's name -> ours; the first one is written
    plain: Mapping[str, Any] = field(default_factory=dict)  # the only supported values of other options
    stated: Mapping[str, Any] = field(default_factory=dict)  # those that are written
    # Options that a file must have, and their supported values; the first is written.
    needed: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    # Options that follow from others -> the value that a file may repeat, but not contradict.
    implied: Mapping[str, Callable[[BertConfig], Any]] = field(default_factory=dict)
    without_effect: Collection[str] = ()  # keys of other options: nothing that is computed here depends on them
    storage: Storage = field(default_factory=Storage)
    prefix: str = ""  # of the encoder's weights in a file with heads
    older_prefix: str | None = None  # the same in older files
    older_names: Mapping[str, str] = field(default_factory=dict)  # parts of names in older files -> current ones
    projects_equal_sizes: bool = False  # whether to project embeddings that are as wide as the hidden states
    masked_lm_activation: str | None = None  # None: the encoder's
    # The activation of the dense layer before the sequence classifier; None: the pooler is that layer.
    sequence_activation: str | None = None

    def reads_pooler(self, head: str) -> bool:
        """Whether a head reads the pooler's output, so that a model with this head must have a pooler.

        Example:
            >>> from keras_bert.formats import FAMILIES
            >>> [FAMILIES[family].reads_pooler("sequence") for family in ("bert", "roberta", "distilbert")]
            [True, False, False]
        """
        has_own_layer = any(ours.startswith("transform") for ours in self.heads.get(head, ()))
        return bool(self.pooler) and head in _READ_POOLER and not has_own_layer

    def check_pooler(self, config: BertConfig, heads: Iterable[str]) -> None:
        """Raises ValueError if an encoder has a pooler that its family lacks, or lacks the pooler that a head reads."""
        if config.pooler and not self.pooler:
            raise ValueError(f"a {config.family} has no pooler in this layout; make the encoder with pooler=False")
        reading = [head for head in heads if self.reads_pooler(head)]
        if reading and not config.pooler:
            raise ValueError(
                f"the head {reading[0]!r} of a {config.family} reads the pooler, but the encoder has none; make it, or "
                "load it from its preset, with pooler=True, which draws a new pooler, to be trained with the head"
            )

    def parts(self, config: BertConfig) -> dict[str, Names]:
        """The names of the weights of "encoder" (with its pooler, if the config has one) and of each head."""
        embeddings, pooler = self.weights(self.embeddings), self.weights(self.pooler) if config.pooler else {}
        blocks = {
            f"block_{i}/{ours}": [name.format(i=i) for name in theirs]
            for i in range(config.groups)
            for ours, theirs in self.weights(self.block).items()
        }
        heads = {head: self.weights(layers) for head, layers in self.heads.items()}
        parts = {"encoder": {**embeddings, **blocks, **self.weights(self.last), **pooler}, **heads}
        return {
            part: {ours: each for ours, each in names.items() if exists(config, ours)} for part, names in parts.items()
        }

    @property
    def scopes(self) -> set[str]:
        """The beginnings of the names of an encoder's weights, to the first separator."""
        rows = [*self.embeddings.values(), *self.block.values(), *self.last.values(), *self.pooler.values()]
        names = [name for row in rows for name in ([row] if isinstance(row, str) else row)]
        return {re.match(r"[^./]+[./]?", name)[0] for name in names} | ({self.prefix} - {""})

    def weights(self, layers: Layers) -> Names:
        """The names of the weights of some layers."""
        names: Names = {}
        for ours, theirs in layers.items():
            theirs = [theirs] if isinstance(theirs, str) else theirs
            if ours.rpartition("/")[2] in _KINDS:
                names[ours] = theirs
            else:
                for kind in kinds(ours):
                    names[f"{ours}/{kind}"] = [name + self.endings[kind] for name in theirs]
        return names

    def todays(self, values: Mapping[str, Any], source: Path) -> dict[str, Any]:
        """The values of a configuration file, with the keys of the current dialect.

        Raises:
            ValueError: the file has a value in both dialects, and they differ.
        """
        found = dict(values)
        for older, key in self.renamed.items():
            value, current = values.get(older), value_at(values, key)
            if value is not None and current not in (None, value):
                raise ValueError(f"{source}: {older} is {value!r}, but {key}, its newer name, is {current!r}; drop one")
            if value is not None:
                _put(found, key, value)
        return found

    @property
    def shape(self) -> dict[str, Any]:
        """The types of the values in a configuration file, for `files.check_json`."""
        shape: dict[str, Any] = {}
        for ours, keys in self._keys:
            required = ours in _REQUIRED and len(keys) == 1
            for key in keys:
                *outer, last = key.split(".")
                inner = shape
                for each in outer:
                    inner = inner.setdefault(each, ({}, None))[0]
                kind = types_of(BertConfig)[ours].kind
                inner[last] = kind if required else (kind, None)
        if self.layer_kinds is not None:
            shape[self.layer_kinds] = ([str], None)
        return shape

    def config_of(self, family: str, values: Mapping[str, Any], source: Path) -> BertConfig:
        """The configuration from a file's values; messages name the file `source`.

        Raises:
            ValueError: a value does not have the type in `shape` or is out of range, or an option or an activation is
                not supported.

        Warns:
            UserWarning: the file has options that are not known here.
        """
        check_plain(values, self.plain, source)
        for key, known in self.needed.items():
            if value_at(values, key) not in known:
                raise ValueError(f"{source}: {key} is {value_at(values, key)!r}; only {known[0]!r} is supported")
        try:
            config = BertConfig(family=family, **self._fields(values))
        except ValueError as error:
            raise ValueError(f"{source}: {error}") from None
        check_plain(values, {key: value_of(config) for key, value_of in self.implied.items()}, source)
        warn_of_unknown(values, self.known, source)
        return config

    @property
    def known(self) -> set[str]:
        """The keys of a configuration file that are obeyed, must have a certain value, or have no effect."""
        obeyed = [key for _, keys in self._keys for key in keys]
        kinds = [] if self.layer_kinds is None else [self.layer_kinds]
        return {*obeyed, *kinds, *self.renamed, *self.plain, *self.needed, *self.implied, *self.without_effect}

    @property
    def _keys(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(ours, (keys,) if isinstance(keys, str) else keys) for ours, keys in self.config.items()]

    def _fields(self, values: Mapping[str, Any]) -> dict[str, Any]:
        # In these files, null means "not set".
        found = {}
        for ours, keys in self._keys:
            given = [(key, value_at(values, key)) for key in keys if value_at(values, key) is not None]
            if given:
                for key, value in given:
                    check_field(ours, value, key)
                (key, found[ours]), *others = given
                if differing := [f"{other} is {value!r}" for other, value in others if value != found[ours]]:
                    warnings.warn(
                        f"{key} is {found[ours]!r}, but {', '.join(differing)}; here it is the former", stacklevel=3
                    )
        for name in ("activation", "head_activation"):
            if name in found:
                found[name] = self._activation(self.config[name], found[name])
        kinds = values.get(self.layer_kinds)
        if kinds is not None:
            found["global_every"] = _global_every(kinds, found, self.layer_kinds)
        if "pooling" in found:
            if found["pooling"] not in self.poolings:
                known = ", ".join(self.poolings)
                raise ValueError(f"{self.config['pooling']} is {found['pooling']!r}; supported are {known}")
            found["pooling"] = self.poolings[found["pooling"]]
        if self.keeps_two_thirds:
            found["intermediate_size"] = -(-(found["intermediate_size"] * 2 // 3) // 8) * 8
        fields = {**self.values, **found}
        if not self.pooler:
            fields["pooler"] = False
        if fields.get("embedding_size") == fields["hidden_size"] and not self.projects_equal_sizes:
            fields["embedding_size"] = None
        if fields.get("positions_after_padding") and not self.storage.lacks_padding_positions:
            # The file states the number of rows in the table.
            rows, padding = fields.get("max_positions", 512), fields["pad_token_id"] + 1
            if rows <= padding:
                raise ValueError(
                    f"{self.config['max_positions']} is {rows}, but positions count from {padding}, after that of "
                    f"padding; expected at least {padding + 1}"
                )
            fields["max_positions"] = rows - padding
        return fields

    def _activation(self, key: Any, name: str) -> str:
        if name not in self.activations:
            raise ValueError(f"{key} is {name!r}; supported are {', '.join(self.activations)}")
        return self.activations[name]

    def entries(self, config: BertConfig) -> dict[str, Any]:
        """The entries of a configuration file: the inverse of `config_of`.

        Raises:
            ValueError: the layout cannot express a field.
        """
        self._check_expressible(config)
        fields = {
            **config.to_dict(),
            "max_positions": config.position_rows or config.max_positions,
            "embedding_size": config.embedding_width,
            "num_groups": config.groups,
            "num_key_value_heads": config.key_value_heads,
            "pooling": next((theirs for theirs, ours in self.poolings.items() if ours == config.pooling), None),
        }
        if self.keeps_two_thirds:
            fields["intermediate_size"] = config.intermediate_size * 3 // 2
        for name in ("activation", "head_activation"):
            theirs = [theirs for theirs, ours in self.activations.items() if ours == fields[name]]
            fields[name] = theirs[0] if theirs else fields[name]
        stated: dict[str, Any] = {key: known[0] for key, known in self.needed.items()}
        for key, value in self.stated.items():
            _put(stated, key, value)
        for ours, keys in self._keys:
            for key in keys:
                _put(stated, key, fields[ours])
        if self.layer_kinds is not None:
            stated[self.layer_kinds] = _kinds_of_layers(config.num_layers, config.global_every)
        return stated

    def _check_expressible(self, config: BertConfig) -> None:
        """Raises ValueError for fields that the file cannot express."""
        for each in fields(BertConfig):
            name, value, implied = each.name, getattr(config, each.name), self.values.get(each.name, each.default)
            if name not in (*self.config, *_SAID_BY_WEIGHTS) and value != implied:
                raise ValueError(f"a {config.family} in this layout has {name}={implied!r}, not {value!r}")
        if self.poolings and config.pooling not in self.poolings.values():
            known = ", ".join(self.poolings.values())
            raise ValueError(f"a {config.family} in this layout has pooling={config.pooling!r}; expected {known}")


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    """Sets the value at a key, where dots lead into objects."""
    *outer, last = key.split(".")
    for each in outer:
        values[each] = values = dict(values.get(each) or {})
    values[last] = value


def value_at(values: Mapping[str, Any], key: str) -> Any:
    """The value at a key, where dots lead into objects; None if there is none."""
    for each in key.split("."):
        values = values.get(each) if isinstance(values, Mapping) else None
    return values


def check_plain(values: Mapping[str, Any], plain: Mapping[str, Any], source: Path) -> None:
    """Raises ValueError if a key of `plain` has another value in the file `source`. Null and missing are allowed."""
    for key, value in plain.items():
        found = value_at(values, key)
        if found not in (None, value):
            raise ValueError(f"{source}: {key} is {found!r}; only {value!r} is supported")


def warn_of_unknown(values: Mapping[str, Any], known: Collection[str], source: Path) -> None:
    """Warns of keys of the file `source` that are set and not in `known`, where dots lead into objects."""
    unknown = [key for key in _keys_in(values, known) if key not in known]
    if unknown:
        warnings.warn(
            f"{source} has settings that are not known here, and are not obeyed: {', '.join(sorted(unknown))}; if one "
            "of them changes what the model computes, its results are others here",
            stacklevel=2,
        )


def _keys_in(values: Mapping[str, Any], known: Collection[str], place: str = "") -> Iterator[str]:
    """The keys that are set, with those of objects of which only some keys are known."""
    for key, value in values.items():
        name = place + key
        if isinstance(value, Mapping) and name not in known and any(each.startswith(f"{name}.") for each in known):
            yield from _keys_in(value, known, f"{name}.")
        elif value is not None:
            yield name


def _kinds_of_layers(layers: int, every: int) -> list[str]:
    return [_LOCAL if i % every else _GLOBAL for i in range(layers)]


def _global_every(kinds: list[str], found: Mapping[str, Any], key: str) -> int:
    """The value of `global_every`: as stated, else from the kinds of all layers. Raises if they contradict it."""
    layers = found["num_layers"]
    for every in (found.get("global_every", 1), *range(2, layers + 1)):
        if kinds == _kinds_of_layers(layers, every):
            return every
    raise ValueError(
        f"{key} is {', '.join(kinds)}; only {_GLOBAL} in every n-th of {layers} layers, from the first, is supported"
    )
