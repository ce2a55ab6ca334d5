"""The families of models in Hugging Face's format, each with a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from keras_bert.config import BertConfig
from keras_bert.formats.families.bert import ALBERT, BERT, DEBERTA, DISTILBERT, ELECTRA, MPNET, ROBERTA
from keras_bert.formats.families.rotary import EUROBERT, GTE, JINA, MODERNBERT, NEOBERT, NEW, NOMIC_BERT, ULTRABERT
from keras_bert.formats.families.table import FamilyTable

# By the `model_type` in config.json.
FAMILIES = {
    "bert": BERT,
    "ernie": replace(BERT, classes="Ernie", prefix="ernie."),
    "roberta": ROBERTA,
    "xlm-roberta": replace(ROBERTA, classes="XLMRoberta"),
    "camembert": replace(ROBERTA, classes="Camembert"),
    "distilbert": DISTILBERT,
    "albert": ALBERT,
    "electra": ELECTRA,
    "modernbert": MODERNBERT,
    "nomic_bert": NOMIC_BERT,
    "mpnet": MPNET,
    "deberta-v2": DEBERTA,
    "gte": GTE,
    "new": NEW,
    "eurobert": EUROBERT,
    "ultrabert": ULTRABERT,
    "neobert": NEOBERT,
    "jina_embeddings_v3": JINA,
}


def table_of(config: BertConfig) -> FamilyTable:
    """Looks up the table of a configuration's family. Raises ValueError if the family has none."""
    if config.family not in FAMILIES:
        raise ValueError(
            f"family must be one of {', '.join(FAMILIES)}, not {config.family!r}; keep a model of another family in "
            "Keras's own files: model.save('model.keras')"
        )
    return FAMILIES[config.family]


def check_storable(config: BertConfig, heads: Iterable[str] = ()) -> None:
    """Raises ValueError if the files of a family have no place for the pooler or heads. Call it before training.

    A family that is not in `FAMILIES` passes: it can only be saved in Keras's own files, which hold any weights.
    """
    if config.family in FAMILIES:
        FAMILIES[config.family].check(config, heads)
