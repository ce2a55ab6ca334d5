"""Question answerers to test: a small one, one with logits from a table, and all answers of one by hand."""

import functools

import numpy as np
import tensorflow as tf

from keras_bert import BertQuestionAnswerer
from keras_bert.text import WordPieceTokenizer

from . import small
from .reference import squad

QUESTIONS = ["Where is the film?", "movie plot time", "Is it good?", "日本語?", "What is cold?"]
CONTEXTS = [
    "The film was very good! " + "She loved the bank by the river. " * 5,
    "Naïve plots 😀, dull music & a cold river-bank (1987).",
    "😀",
    "日本語の映画は good 🙂 e\u0301",
    "\u200b the plot, not the actor \u200b " * 4,
]
WEIRD = "😀 Zoë's cafe\u0301, 👩‍👩‍👧 日本語 naïve\u200bté \t ﬁn \U0001f1e9\U0001f1ea A\u030angström o"
_TOKENS = "who is it why a the green spotted giraffe nothing word zoe s cafe 日 本 語 naivete ﬁn angstrom o ' , . ?"


def new(text=None, kind=BertQuestionAnswerer, **settings):
    """A model of one layer, with a stride of 5 tokens unless `text` says otherwise."""
    return small.task(kind, text={"stride": 5, **(text or {})}, config={"num_layers": 1}, **settings)


class Lookup(BertQuestionAnswerer):
    """A model with its start and end logits in two tables: by token, and by position in the row."""

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self.by_token = tf.Variable(tf.zeros([self.encoder.config.vocab_size, 2]))
        self.by_place = tf.Variable(tf.zeros([64, 2]))

    def call(self, inputs, training=None):
        ids = inputs["input_word_ids"]
        return tf.gather(self.by_token, ids) + self.by_place[: tf.shape(ids)[-1]]


@functools.cache
def words():
    """A tokenizer in which each word of the tests' texts is one token."""
    return WordPieceTokenizer([*small.SPECIAL, *_TOKENS.split()])


@functools.cache
def _lookup(make_tokenizer, **settings):
    tokenizer = make_tokenizer()
    text = {name: settings.pop(name) for name in ("sequence_length", "max_sequence_length") if name in settings}
    return new({"tokenizer": tokenizer, **text}, Lookup, **settings)


def lookup(starts=(), ends=(), none=-1.0, make_tokenizer=words, **settings):
    """A model for answers that start and end with certain words; calls with the same settings share one model."""
    model = _lookup(make_tokenizer, **settings)
    tokenizer = model.preprocessor.tokenizer
    by_token = np.zeros(model.by_token.shape, "float32")
    by_token[tokenizer.cls_token_id] = none / 2
    for word in starts:
        by_token[tokenizer.tokenize(word)[0], 0] = 9
    for word in ends:
        by_token[tokenizer.tokenize(word)[-1], 1] = 9
    model.by_token.assign(by_token)
    model.by_place.assign(tf.zeros_like(model.by_place))
    model.no_answer_threshold = None
    return model


def answers_by_hand(model, question, context):
    """All answers as (score, start, end), best first; and the score of no answer."""
    tokenizer = model.preprocessor.tokenizer
    cut, before, starts, ends = squad.windows(model.preprocessor, question, context)
    spans = [(begin, len(tokens)) for begin, tokens in cut]
    rows = [[*before, *tokens, tokenizer.sep_token_id] for _, tokens in cut]
    shape = len(rows), max(map(len, rows))
    packed = {name: np.zeros(shape, "int32") for name in ("input_word_ids", "input_mask", "input_type_ids")}
    packed["input_word_ids"][:] = tokenizer.pad_token_id
    for number, row in enumerate(rows):
        packed["input_word_ids"][number, : len(row)] = row
        packed["input_mask"][number, : len(row)] = 1
        packed["input_type_ids"][number, len(before) : len(row)] = tokenizer.pair_format.second_type_id
    found, none = [], np.inf
    for number, ((begin, tokens), logits) in enumerate(zip(cut, np.asarray(model(packed)), strict=True)):
        none = min(none, logits[0].sum())
        for start in range(len(tokens)):
            if squad.is_max_context(spans, number, begin + start):
                for end in range(start, min(start + model.max_answer_length, len(tokens))):
                    score = logits[len(before) + start, 0] + logits[len(before) + end, 1]
                    place = starts[begin + start], ends[begin + end]
                    place = tuple(len(context.encode()[:offset].decode()) for offset in place)
                    found.append((score, *place))
    return sorted(found, key=lambda each: -each[0]), none
