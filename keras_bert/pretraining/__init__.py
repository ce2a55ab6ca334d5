"""Pre-training: from corpora to examples, records and objectives (Devlin et al. 2018, section 3.1)."""

from keras_bert.pretraining.corpus import documents, parts_of
from keras_bert.pretraining.examples import make_examples
from keras_bert.pretraining.masking import MaskedLMMasking, unmasked
from keras_bert.pretraining.pretrainer import BertPretrainer
from keras_bert.pretraining.records import Records, baselines, write_records

__all__ = [
    "BertPretrainer",
    "MaskedLMMasking",
    "Records",
    "baselines",
    "documents",
    "make_examples",
    "parts_of",
    "unmasked",
    "write_records",
]
