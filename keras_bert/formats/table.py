"""Table: one layout's names for the configuration and the weights of one family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.config import BertConfig
from keras_bert.formats.shapes import Names
from keras_bert.formats.storage import Storage

# Our layer, or a single weight of it -> the layout's name or names.
Layers = Mapping[str, str | list[str]]

_KINDS = ("kernel", "bias", "gamma", "beta", "embeddings")


@dataclass(frozen=True)
class Table:
    """One layout's names for the configuration and the weights of one family.

    A row of weights maps the path of a layer in our encoder or head to the layout's name of that layer. It has several
    names if our layer concatenates several of theirs (query, key and value), and none if the layout has no such layer:
    our weights are then zeros. A row may also be a single weight ("logits/kernel"). `{i}` is the number of a layer, or
    of a group of layers.

    Attributes:
        classes: the prefix of the family's class names in the layout's library: "Bert" of BertModel.
        prefix: the prefix of the encoder's weights in a file with heads.
        config: field of BertConfig -> key of the configuration file.
        values: fields that the file does not state, or may leave out.
        projects_equal_sizes: whether embeddings are projected even if they are as wide as the hidden states.
        embeddings, block, pooler: the encoder's weights; `pooler` is empty in a family without one.
        heads: the weights of the family's heads.
        endings: "kernel", "bias", "gamma", "beta" or "embeddings" -> the suffix to the name of the layer.
        storage: how the file's arrays differ from ours.
        masked_lm_activation: the masked-language head's; None: the encoder's.
        sequence_activation: that of the dense layer before the sequence classifier; None: there is no such layer,
            because the pooler is one.

    Example:
        >>> from keras_bert import BertConfig
        >>> from keras_bert.formats import FAMILIES
        >>> FAMILIES["bert"].parts(BertConfig.tiny())["pooler"]
        {'pooler/kernel': ['pooler.dense.weight'], 'pooler/bias': ['pooler.dense.bias']}
    """

    classes: str
    embeddings: Layers
    block: Layers
    endings: Mapping[str, str]
    pooler: Layers = field(default_factory=dict)
    heads: Mapping[str, Layers] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    storage: Storage = field(default_factory=Storage)
    prefix: str = ""
    projects_equal_sizes: bool = False
    masked_lm_activation: str | None = None
    sequence_activation: str | None = None

    def parts(self, config: BertConfig) -> dict[str, Names]:
        """The names of the weights of "encoder" (without pooler), "pooler", and each head."""
        optional = {"embeddings/type": config.type_vocab_size, "embeddings/projection": config.embedding_size}
        embeddings = {ours: theirs for ours, theirs in self.embeddings.items() if optional.get(ours, True)}
        blocks = {
            f"block_{i}/{ours}": [name.format(i=i) for name in theirs]
            for i in range(config.groups)
            for ours, theirs in self._weights(self.block).items()
        }
        heads = {head: self._weights(layers) for head, layers in self.heads.items()}
        return {"encoder": {**self._weights(embeddings), **blocks}, "pooler": self._weights(self.pooler), **heads}

    def _weights(self, layers: Layers) -> Names:
        names: Names = {}
        for ours, theirs in layers.items():
            theirs = [theirs] if isinstance(theirs, str) else theirs
            if ours.rpartition("/")[2] in _KINDS:
                names[ours] = theirs
            else:
                for kind in _kinds(ours):
                    names[f"{ours}/{kind}"] = [name + self.endings[kind] for name in theirs]
        return names

    def fields(self, stated: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of BertConfig that a configuration file states, or implies.

        Args:
            stated: the file's keys and values.
        """
        # In these files, null means "not set".
        found = {ours: stated[theirs] for ours, theirs in self.config.items() if stated.get(theirs) is not None}
        fields = {**self.values, **found}
        if not self.pooler:
            fields["pooler"] = False
        if fields.get("embedding_size") == fields.get("hidden_size") and not self.projects_equal_sizes:
            fields["embedding_size"] = None
        if fields.get("positions_after_padding") and not self.storage.lacks_padding_positions:
            # The file states the number of rows in the table.
            fields["max_positions"] = fields.get("max_positions", 512) - fields["pad_token_id"] - 1
        return fields

    def stated(self, config: BertConfig) -> dict[str, Any]:
        """The entries of a configuration file: the inverse of `fields`."""
        fields = {
            **config.to_dict(),
            "max_positions": config.position_rows,
            "embedding_size": config.embedding_width,
            "num_groups": config.groups,
        }
        return {theirs: fields[ours] for ours, theirs in self.config.items()}


def read_config_file(path: Path, config_of: Callable[[dict[str, Any]], BertConfig]) -> BertConfig:
    """The result of `config_of` for the object in a JSON file. Errors name the file."""
    values = files.read_json(path)
    try:
        return config_of(values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _kinds(layer: str) -> tuple[str, ...]:
    """The weights of one of our layers."""
    if layer in ("embeddings/word", "embeddings/position", "embeddings/type"):
        return ("embeddings",)
    return ("gamma", "beta") if layer.endswith("norm") else ("kernel", "bias")
