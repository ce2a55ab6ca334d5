"""Table: a layout's names for the configuration and the weights of one family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from keras_bert.config import BertConfig
from keras_bert.formats.shapes import Names
from keras_bert.formats.storage import Storage

# Our name of a layer, or of a single weight -> the layout's name or names.
Layers = Mapping[str, str | list[str]]

_KINDS = ("kernel", "bias", "gamma", "beta", "embeddings")
_REQUIRED = ("vocab_size", "hidden_size", "num_layers", "num_heads", "intermediate_size")
_TYPES = {each.name: int if each.default is None else type(each.default) for each in fields(BertConfig)}


@dataclass(frozen=True)
class Table:
    """A layout's names for the configuration and the weights of one family.

    A row of weights maps the path of a layer in our encoder or head to the layout's name of that layer. It has several
    names if our layer concatenates theirs (query, key and value), and none if the layout has no such layer: our weights
    are then zeros. A row may also be a single weight ("logits/kernel"). `{i}` is the number of a layer, or of a group
    of layers.

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
    pooler: Layers = field(default_factory=dict)  # empty in a family without one
    heads: Mapping[str, Layers] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)  # field of BertConfig -> key of the configuration file
    values: Mapping[str, Any] = field(default_factory=dict)  # of fields that the file may leave out
    activations: Mapping[str, str] = field(default_factory=dict)  # the file's name -> ours; the first one is written
    plain: Mapping[str, Any] = field(default_factory=dict)  # the only supported values of other options
    storage: Storage = field(default_factory=Storage)
    prefix: str = ""  # of the encoder's weights in a file with heads
    projects_equal_sizes: bool = False  # whether to project embeddings that are as wide as the hidden states
    masked_lm_activation: str | None = None  # None: the encoder's
    # Of the dense layer before the sequence classifier; None: there is none, because the pooler is one.
    sequence_activation: str | None = None

    def parts(self, config: BertConfig) -> dict[str, Names]:
        """The names of the weights of "encoder" (with its pooler, if the config has one) and of each head."""
        optional = {"embeddings/type": config.type_vocab_size, "embeddings/projection": config.embedding_size}
        embeddings = {ours: theirs for ours, theirs in self.embeddings.items() if optional.get(ours, True)}
        blocks = {
            f"block_{i}/{ours}": [name.format(i=i) for name in theirs]
            for i in range(config.groups)
            for ours, theirs in self.weights(self.block).items()
        }
        pooler = self.weights(self.pooler) if config.pooler else {}
        heads = {head: self.weights(layers) for head, layers in self.heads.items()}
        return {"encoder": {**self.weights(embeddings), **blocks, **pooler}, **heads}

    def weights(self, layers: Layers) -> Names:
        """The names of the weights of some layers."""
        names: Names = {}
        for ours, theirs in layers.items():
            theirs = [theirs] if isinstance(theirs, str) else theirs
            if ours.rpartition("/")[2] in _KINDS:
                names[ours] = theirs
            else:
                for kind in _kinds(ours):
                    names[f"{ours}/{kind}"] = [name + self.endings[kind] for name in theirs]
        return names

    @property
    def shape(self) -> dict[str, Any]:
        """The types of the values in a configuration file, for `files.check_json`."""
        return {
            theirs: _TYPES[ours] if ours in _REQUIRED else (_TYPES[ours], None) for ours, theirs in self.config.items()
        }

    def config_of(self, family: str, values: Mapping[str, Any], source: Path) -> BertConfig:
        """The configuration from a file's values, which have the types in `shape`; messages name the file `source`.

        Raises:
            ValueError: an option or an activation is not supported, or a value is out of range.
        """
        check_plain(values, self.plain, source)
        try:
            return BertConfig(family=family, **self._fields(values))
        except ValueError as error:
            raise ValueError(f"{source}: {error}") from None

    def _fields(self, values: Mapping[str, Any]) -> dict[str, Any]:
        # In these files, null means "not set".
        found = {ours: values[theirs] for ours, theirs in self.config.items() if values.get(theirs) is not None}
        if "activation" in found:
            name = found["activation"]
            if name not in self.activations:
                known = ", ".join(self.activations)
                raise ValueError(f"{self.config['activation']} is {name!r}; known are {known}")
            found["activation"] = self.activations[name]
        fields = {**self.values, **found}
        if not self.pooler:
            fields["pooler"] = False
        if fields.get("embedding_size") == fields["hidden_size"] and not self.projects_equal_sizes:
            fields["embedding_size"] = None
        if fields.get("positions_after_padding") and not self.storage.lacks_padding_positions:
            # The file states the number of rows in the table.
            fields["max_positions"] = fields.get("max_positions", 512) - fields["pad_token_id"] - 1
        return fields

    def stated(self, config: BertConfig) -> dict[str, Any]:
        """The entries of a configuration file: the inverse of `config_of`."""
        fields = {
            **config.to_dict(),
            "max_positions": config.position_rows,
            "embedding_size": config.embedding_width,
            "num_groups": config.groups,
        }
        names = [theirs for theirs, ours in self.activations.items() if ours == config.activation]
        if names:
            fields["activation"] = names[0]
        return {theirs: fields[ours] for ours, theirs in self.config.items()}


def check_plain(values: Mapping[str, Any], plain: Mapping[str, Any], source: Path) -> None:
    """Raises ValueError if a key of `plain` has another value in the file `source`; it may be null or missing."""
    for key, value in plain.items():
        if values.get(key) not in (None, value):
            raise ValueError(f"{source}: {key} is {values[key]!r}; only {value!r} is supported")


def _kinds(layer: str) -> tuple[str, ...]:
    """The weights of one of our layers."""
    if layer in ("embeddings/word", "embeddings/position", "embeddings/type"):
        return ("embeddings",)
    return ("gamma", "beta") if layer.endswith("norm") else ("kernel", "bias")
