"""The families of models, each in a file: its names, its sizes and its tokenizer. `row.py` explains."""

from keras_bert.formats.families.albert import ALBERT
from keras_bert.formats.families.bert import BERT, ERNIE
from keras_bert.formats.families.deberta import DEBERTA
from keras_bert.formats.families.distilbert import DISTILBERT
from keras_bert.formats.families.electra import ELECTRA
from keras_bert.formats.families.eurobert import EUROBERT
from keras_bert.formats.families.gte import GTE, NEW
from keras_bert.formats.families.jina import JINA
from keras_bert.formats.families.modernbert import MODERNBERT
from keras_bert.formats.families.mpnet import MPNET
from keras_bert.formats.families.neobert import NEOBERT
from keras_bert.formats.families.nomic_bert import NOMIC_BERT
from keras_bert.formats.families.roberta import CAMEMBERT, ROBERTA, XLM_ROBERTA
from keras_bert.formats.families.row import Family
from keras_bert.formats.families.static import MODEL2VEC, STATIC_EMBEDDING
from keras_bert.formats.families.ultrabert import ULTRABERT

_FAMILIES = (
    BERT,
    ERNIE,
    ROBERTA,
    XLM_ROBERTA,
    CAMEMBERT,
    DISTILBERT,
    ALBERT,
    ELECTRA,
    MODERNBERT,
    NOMIC_BERT,
    MPNET,
    DEBERTA,
    GTE,
    NEW,
    EUROBERT,
    ULTRABERT,
    NEOBERT,
    JINA,
    MODEL2VEC,
    STATIC_EMBEDDING,
)
FAMILIES: dict[str, Family] = {family.name: family for family in _FAMILIES}
# The names of the files of SentencePiece's models.
SENTENCEPIECE_FILES = tuple(
    dict.fromkeys(each.model for family in _FAMILIES for each in family.sentencepiece.values() if each.model)
)
