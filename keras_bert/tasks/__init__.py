"""hidden states -> answers a person can use: one file a task."""

from keras_bert.tasks.classifier import BertClassifier
from keras_bert.tasks.masked_lm import BertMaskedLM
from keras_bert.tasks.next_sentence import BertNextSentence
from keras_bert.tasks.question_answerer import BertQuestionAnswerer
from keras_bert.tasks.sentence import BertSentenceEncoder
from keras_bert.tasks.token_classifier import BertTokenClassifier

__all__ = [
    "BertClassifier",
    "BertMaskedLM",
    "BertNextSentence",
    "BertQuestionAnswerer",
    "BertSentenceEncoder",
    "BertTokenClassifier",
]
