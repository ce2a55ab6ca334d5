"""FamilyTable translates configurations and names of weights as a family's row says; `families/` lists the families."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.config import BertConfig, check_field, types_of
from keras_bert.counted import listed
from keras_bert.formats.families import FAMILIES
from keras_bert.formats.families.row import Layers, Row, put, value_at
from keras_bert.shapes import Layers as HeadLayers
from keras_bert.shapes import head_layers, shapes

Names = dict[str, list[str]]  # this package's name of a weight -> names in the file

# Fields whose key must be in a file; if a field has several keys, any one of them may be missing.
_REQUIRED = ("vocab_size", "hidden_size", "num_layers", "num_heads", "intermediate_size", "disentangled_buckets")
# Fields without a key in files: `model_type` decides the family, and the weights show whether there is a pooler.
_WITHOUT_KEY = ("family", "pooler")
# Fields without a key in files, because the family decides them. They change only heads, not the encoder.
_HEAD_FIELDS = (
    *("masked_lm_activation", "sequence_activation", "sequence_pooler", "head_norm"),
    *("own_decoder", "decoder_bias", "decoder_width"),
)


class FamilyTable(Row):
    """A row, and what follows from it."""

    def check(self, config: BertConfig, heads: Iterable[str]) -> None:
        """Raises ValueError if files have no place for an encoder's pooler, a head, or its layers."""
        if config.pooler and not self.pooler:
            raise ValueError(f"a {config.family} has no pooler in this format; make the encoder with pooler=False")
        defaults = BertConfig(family=config.family)
        names = [name for name in _HEAD_FIELDS if name not in self.config]
        fields = {name: self.values.get(name, getattr(defaults, name)) for name in names}
        expected = replace(config, **fields)
        for head in heads:
            if head not in self.heads:
                known = ", ".join(name for name in self.heads if name != "masked_lm") or "none"
                raise ValueError(f"{config.family} has no head {head!r}; it has {known}")
            if _network(config, head) != _network(expected, head):
                differing = (name for name in names if getattr(config, name) != getattr(expected, name))
                raise self._inexpressible(config, next(differing), fields)
        config.check_pooler(heads)

    def parts(self, config: BertConfig) -> dict[str, Names]:
        """Lists the names of the weights of "encoder" (with its pooler, if the config has one) and of each head."""
        blocks = {
            f"block_{i}/{path}": [name.format(i=i) for name in _as_list(file_names)]
            for i in range(config.groups)
            for path, file_names in self.block.items()
        }
        heads = dict(self.heads)
        if self.pools_unusually(config):  # other names, so that no other library puts this head on the first token
            sequence = heads["sequence"].items()
            heads["sequence"] = {
                path: [f"{config.pooling}_pooled.{name}" for name in _as_list(names)] for path, names in sequence
            }
        parts = {"encoder": {**self.embeddings, **blocks, **self.last, **self.pooler}, **heads}
        return {part: self._weights(layers, shapes(config, part)) for part, layers in parts.items()}

    def pools_unusually(self, config: BertConfig) -> bool:
        """Checks whether a text classifier pools otherwise than the family does, which only this package computes."""
        return "pooling" in self.written_if_changed and config.pooling != "first"

    @property
    def scopes(self) -> set[str]:
        """The first components of the names of the encoder's weights, with their separator: "embeddings."."""
        rows = [*self.embeddings.values(), *self.block.values(), *self.last.values(), *self.pooler.values()]
        names = [name for row in rows for name in _as_list(row)]
        return {match[0] for name in names if (match := re.match(r"[^./]+[./]?", name))} | ({self.prefix} - {""})

    def _weights(self, layers: Layers, weights: Collection[str]) -> Names:
        """Maps each of `weights` (this package's names) that belongs to `layers` to the format's names."""
        names: Names = {}
        for path, file_names in layers.items():
            if path in weights:
                names[path] = _as_list(file_names)
            for kind, ending in self.endings.items():
                if f"{path}/{kind}" in weights:
                    names[f"{path}/{kind}"] = [name + ending for name in _as_list(file_names)]
        return names

    @property
    def shape(self) -> dict[str, Any]:
        """The types of the values in a configuration file, for `files.check_json`."""
        shape: dict[str, Any] = {}
        for field_name, keys in self._keys:
            required = field_name in _REQUIRED and len(keys) == 1
            for key in keys:
                *outer, last = key.split(".")
                inner = shape
                for each in outer:
                    inner = inner.setdefault(each, ({}, None))[0]
                kind = types_of(BertConfig)[field_name].kind
                inner[last] = kind if required else (kind, None)
        return shape

    def config_of(self, family: str, values: Mapping[str, Any], source: Path) -> BertConfig:
        """Makes the configuration from the values of the file `source`. Warns of unknown options."""
        with files.as_value_error(source, str(source), ValueError):
            values = self.dialect.read(files.with_whole_numbers(dict(values), self.shape), check_field)
        values = files.with_whole_numbers(values, self.shape)
        files.check_json(values, self.shape, source)
        check_fixed_values(values, self.fixed_values, source)
        for key, supported in self.required_options.items():
            if value_at(values, key) not in supported:
                raise ValueError(f"{source}: {key} is {value_at(values, key)!r}; only {supported[0]!r} is supported")
        with files.as_value_error(source, str(source), ValueError):
            config = BertConfig(family=family, **self._values_of_fields(values))
        check_fixed_values(values, {key: value_of(config) for key, value_of in self.implied.items()}, source)
        warn_of_unknown(values, self.known, source)
        return config

    @property
    def known(self) -> set[str]:
        """The keys of a configuration file that are read, must have a certain value, or have no effect."""
        keys_read = [key for _, keys in self._keys for key in keys]
        return {*keys_read, *self.fixed_values, *self.required_options, *self.implied, *self.without_effect}

    @property
    def _keys(self) -> list[tuple[str, tuple[str, ...]]]:
        rows = {**self.config, **self.written_if_changed}.items()
        return [(field_name, (keys,) if isinstance(keys, str) else keys) for field_name, keys in rows]

    def _values_of_fields(self, values: Mapping[str, object]) -> dict[str, Any]:
        # In these files, null means "not set".
        file_fields = {}
        for field_name, keys in self._keys:
            entries = [(key, value_at(values, key)) for key in keys if value_at(values, key) is not None]
            if entries:
                for key, value in entries:
                    check_field(field_name, value, key)
                (key, file_fields[field_name]), *others = entries
                if differing := [
                    f"{other} is {value!r}" for other, value in others if value != file_fields[field_name]
                ]:
                    warnings.warn(
                        f"{key} is {file_fields[field_name]!r}, but {', '.join(differing)}; the first is used",
                        stacklevel=3,
                    )
        for field_name, names in self.choices.items():
            if field_name in file_fields:
                if file_fields[field_name] not in names:
                    raise ValueError(
                        f"{dict(self._keys)[field_name][0]} is {file_fields[field_name]!r}; supported are "
                        f"{', '.join(names)}"
                    )
                file_fields[field_name] = names[file_fields[field_name]]
        fields = {**self.values, **file_fields}
        if not self.pooler:
            fields["pooler"] = False
        if fields.get("positions_after_padding") and not self.storage.lacks_padding_positions:
            # The file has the number of rows of the position table: max_positions + pad_token_id + 1.
            rows, padding = fields.get("max_positions", 512), fields["pad_token_id"] + 1
            if rows <= padding:
                raise ValueError(
                    f"{self.config['max_positions']} is {rows}, but positions count from {padding}, after that of "
                    f"padding; expected at least {padding + 1}"
                )
            fields["max_positions"] = rows - padding
        return fields

    def entries(self, config: BertConfig) -> dict[str, object]:
        """Makes the entries of a configuration file, or raises ValueError if the format cannot express a field."""
        self._check_expressible(config)
        fields = {
            **asdict(config),
            "max_positions": config.position_rows or config.max_positions,
            "embedding_size": config.embedding_width,
            "num_groups": config.groups,
            "num_key_value_heads": config.key_value_heads,
            "local_rope_theta": config.local_rope_theta or config.rope_theta,
        }
        for name, names in self.choices.items():
            fields[name] = next((spelling for spelling, value in names.items() if value == fields[name]), fields[name])
        entries: dict[str, object] = {key: supported[0] for key, supported in self.required_options.items()}
        defaults = BertConfig(family=config.family)
        for field_name, keys in self._keys:
            if field_name in self.written_if_changed and getattr(config, field_name) == getattr(defaults, field_name):
                continue
            if fields[field_name] is None and self.values.get(field_name) is not None:
                value = self.values[field_name]
                raise ValueError(
                    f"{keys[0]} of {config.family} cannot store {field_name}=None: null stands for {value!r}"
                )
            for key in keys:
                put(entries, key, fields[field_name])
        return self.dialect.write(entries)

    def _check_expressible(self, config: BertConfig) -> None:
        """Raises ValueError for fields that the file cannot express."""
        varying = (name for name, keys in self._keys if not self.fixed_values.keys() & {*keys})
        expressible = {*varying, *_WITHOUT_KEY, *_HEAD_FIELDS}
        for each in fields(BertConfig):
            name, implied = each.name, {each.name: self.values.get(each.name, each.default)}
            if name not in expressible and getattr(config, name) != implied[name]:
                raise self._inexpressible(config, name, implied)
        for name, names in self.choices.items():
            if getattr(config, name) not in (None, *names.values()):
                supported = ", ".join(dict.fromkeys(names.values()))
                raise ValueError(
                    f"a {config.family} in this format has {name}={getattr(config, name)!r}; expected {supported}"
                )

    def _inexpressible(self, config: BertConfig, name: str, implied: Mapping[str, object]) -> ValueError:
        value = getattr(config, name)
        return ValueError(
            f"this format cannot store {name}={value!r} for {config.family}; it can only be {implied[name]!r}"
        )


TABLES = {name: FamilyTable(*family.hugging_face) for name, family in FAMILIES.items()}


def table_of(config: BertConfig) -> FamilyTable:
    """Looks up Hugging Face's table of a configuration's family. Raises ValueError if the family has none."""
    if config.family not in TABLES:
        raise ValueError(
            f"family must be one of {', '.join(TABLES)}, not {config.family!r}; keep a model of another family in "
            "Keras's own files: model.save('model.keras')"
        )
    return TABLES[config.family]


def check_storable(config: BertConfig, heads: Iterable[str] = ()) -> None:
    """Raises ValueError if the files of a family have no place for the pooler or heads. Call it before training.

    A family that is not in `TABLES` passes: it can only be saved in Keras's own files, which hold any weights.
    """
    if config.family in TABLES:
        TABLES[config.family].check(config, heads)


def _network(config: BertConfig, head: str) -> tuple[HeadLayers, str]:
    """Describes the layers of a head and their activation, to compare two configurations."""
    return head_layers(config, head), config.activation_of(head)


def _as_list(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names


def check_fixed_values(values: Mapping[str, object], fixed_values: Mapping[str, object], source: Path) -> None:
    """Raises ValueError if a key of `fixed_values` has another value in the file `source`, unless null or missing."""
    for key, value in fixed_values.items():
        actual = value_at(values, key)
        if actual not in (None, value):
            raise ValueError(f"{source}: {key} is {actual!r}; only {value!r} is supported")


def warn_of_unknown(values: Mapping[str, object], known: Collection[str], source: Path) -> None:
    """Warns of keys that the file `source` sets and that `known` lacks. Dots lead into objects."""
    unknown = [key for key in _keys_in(values, known) if key not in known]
    if unknown:
        warnings.warn(
            f"{source} has unknown settings, which are ignored: {listed(sorted(unknown))}; if one of them changes "
            "what the model computes, the results will differ",
            stacklevel=2,
        )


def _keys_in(values: Mapping[str, object], known: Collection[str], place: str = "") -> Iterator[str]:
    """Yields the keys that are not null. An object is entered if `known` has some of its keys, but not the object's."""
    for key, value in values.items():
        name = place + key
        if isinstance(value, Mapping) and name not in known and any(each.startswith(f"{name}.") for each in known):
            yield from _keys_in(value, known, f"{name}.")
        elif value is not None:
            yield name
