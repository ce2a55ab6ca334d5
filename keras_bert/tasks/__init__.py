"""hidden states -> answers a person can use: one file a task."""

from keras_bert.tasks.masked_lm import BertMaskedLM
from keras_bert.tasks.sentence import BertSentenceEncoder

__all__ = ["BertMaskedLM", "BertSentenceEncoder"]
