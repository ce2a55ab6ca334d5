"""BertQuestionAnswerer: finds the span of a context that answers a question (Devlin et al. 2018, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from tqdm import tqdm

from keras_bert.encoder import BertEncoder
from keras_bert.tasks import preset
from keras_bert.tasks.answers import rank_answers
from keras_bert.tasks.by_length import ByLength, rows_by_length
from keras_bert.tasks.contexts import read_contexts, row_lengths, span_targets, tokens_before
from keras_bert.tasks.long_text import sequence_output
from keras_bert.tasks.questions import bytes_of_answer, checked_questions
from keras_bert.tasks.spans import NEVER, SpanLoss, best_spans
from keras_bert.tasks.task import BertTask, TokenizedExamples
from keras_bert.text import BertPreprocessor
from keras_bert.text.strings import as_strings

_BEST, _LONGEST, _STRIDE = 20, 384, 128  # run_squad.py's n_best_size, max_seq_length, doc_stride
_QUESTIONS_AT_A_TIME = 4096


@keras.saving.register_keras_serializable(package="keras_bert")
class BertQuestionAnswerer(BertTask):
    """Finds the answer to a question in a context.

    A context too long for a row is read in windows, and the answer is the best span of them all. An answer may start at
    a token only in the window where the token has the most context.

    Args:
        encoder: see `BertTask`.
        preprocessor: has a stride, to make windows.
        max_answer_length: the most tokens in an answer.
        no_answer_threshold: if given, there is no answer where `no_answer_score` is higher (SQuAD 2.0). None: there
            always is one. May be set later.
        dropout: the rate before the head; the paper's code and `transformers` have none.

    Call arguments:
        inputs: pairs (questions, contexts), or packed inputs, see `BertTask`.

    Returns:
        float32 `[batch, windows, seq_length, 2]`: start and end logits of each token, special tokens included, and
        `NEVER` at padding; for packed inputs without windows `[batch, seq_length, 2]`.

    Raises:
        ValueError: a bad argument.

    Example:
        >>> model = BertQuestionAnswerer.from_preset("all-MiniLM-L6-v2")
        >>> context = "Ada Lovelace wrote the first program in 1843."
        >>> answer = model.answer("Who wrote it?", context)
        >>> answer["answer"] == context[answer["start"] : answer["end"]]
        True
    """

    HEAD = "spans"
    OF_SEQUENCES = False

    def __init__(
        self,
        encoder: BertEncoder,
        preprocessor: BertPreprocessor,
        max_answer_length: int = 30,
        no_answer_threshold: float | None = None,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        if preprocessor.stride is None:
            raise ValueError(
                "the preprocessor has no stride: contexts would be cut off, and the answers in what is cut; use "
                f"BertPreprocessor(..., stride={_STRIDE})"
            )
        if max_answer_length < 1:
            raise ValueError(f"max_answer_length is {max_answer_length}; an answer has at least one token")
        super().__init__(encoder, preprocessor, 2, dropout, **kwargs)
        self.max_answer_length = max_answer_length
        self.no_answer_threshold = no_answer_threshold
        self._by_length = ByLength(preprocessor, lambda segments: self._found(*segments))

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        if not isinstance(inputs, dict | tuple | list):
            raise ValueError("a question answerer takes pairs: a tuple of two, (questions, contexts)")
        packed = self.packed(inputs)
        hidden = sequence_output(self.encoder, packed, training)
        logits = ops.cast(self.head(hidden, training=training), "float32")
        if "input_mask" not in packed:
            return logits
        return ops.where(ops.expand_dims(packed["input_mask"], -1) > 0, logits, NEVER)  # no answer is in padding

    # -- From questions to answers

    def answer(
        self,
        question: str | Sequence[str],
        context: str | Sequence[str],
        top_k: int = 1,
        batch_tokens: int = 1024,
        progress: bool | None = None,
    ) -> Any:
        """Answers a question from its context, or many questions.

        Args:
            question, context: a str each, or as many of both.
            top_k: the number of answers, at most 20.
            batch_tokens: the tokens per batch, padding included.
            progress: whether to show a progress bar; by default on a terminal, if it takes longer than a second.

        Returns:
            For each question a dict; if `top_k` is more than 1, a list of up to `top_k` dicts, best first:
                `answer`: the text, `context[start:end]`. Empty if there is none, see `no_answer_threshold`;
                `start`, `end`: its offsets in characters (code points); 0 and 0 if there is none;
                `score`: the start logit plus the end logit;
                `probability`: 0 to 1, a softmax over the scores of the 20 best;
                `no_answer_score`: the score of no answer (of `[CLS]`, lowest among the windows) minus the score of the
                best answer; the same for all answers to a question.

        Raises:
            TypeError, ValueError: the numbers of questions and contexts differ, one is not a str or is empty, or
                `top_k` is not 1 to 20.
        """
        if not 1 <= top_k <= _BEST:
            raise ValueError(f"top_k is {top_k}; expected 1 to {_BEST}")
        is_one = isinstance(question, str) and isinstance(context, str)
        questions, contexts = checked_questions(*([question], [context]) if is_one else (question, context))
        answers = []
        with tqdm(total=0, unit=" windows", delay=1, disable=None if progress is None else not progress) as bar:
            for first in range(0, len(questions), _QUESTIONS_AT_A_TIME):
                chunk = slice(first, first + _QUESTIONS_AT_A_TIME)
                answers.extend(self._answers(questions[chunk], contexts[chunk], top_k, batch_tokens, bar))
        answers = answers if top_k > 1 else [ranked[0] for ranked in answers]
        return answers[0] if is_one else answers

    def _answers(
        self, questions: list[str], contexts: list[str], top_k: int, batch_tokens: int, bar: tqdm
    ) -> list[list[dict[str, Any]]]:
        texts = as_strings(contexts)
        read = read_contexts(self.preprocessor, as_strings(questions), texts)
        lengths = np.maximum(row_lengths(self.preprocessor, read), self.preprocessor.sequence_length or 0)
        bar.total += len(lengths)
        found = self._by_length.compute(list(read.segments), rows_by_length(lengths, batch_tokens), bar)
        found = rank_answers(read, texts, tf.constant(np.array(found)), self.no_answer_threshold, top_k)
        columns = {name: values.numpy().tolist() for name, values in found._asdict().items()}  # each [batch, top_k]
        answers = []
        for row, context in enumerate(contexts):
            ranked = [{name: values[row][i] for name, values in columns.items()} for i in range(top_k)]
            answers.append(
                [{"answer": context[each["start"] : each["end"]], **each} for each in ranked if each.pop("exists")]
            )
        return answers

    def _found(self, question: tf.RaggedTensor, window: tf.RaggedTensor, is_best: tf.RaggedTensor) -> tf.Tensor:
        """The best spans of each window.

        Args:
            question, window, is_best: `Contexts.segments`, or some rows of these.

        Returns:
            float32 `[windows, 20, 4]`: each span's score, first token, last token, and the score of [CLS].
        """
        logits = self(self._packed_windows(question, window), training=False)  # [windows, seq_length, 2]
        may_start = is_best.to_tensor() > 0  # [windows, tokens]
        place = tokens_before(self.preprocessor, question)[:, None] + tf.range(tf.shape(may_start, tf.int64)[1])
        place = tf.minimum(place, tf.shape(logits, tf.int64)[1] - 1)  # for the shorter windows
        of_window = tf.gather(logits, place, batch_dims=1)  # [windows, tokens, 2]
        spans = best_spans(of_window, may_start, window.row_lengths(), self.max_answer_length, _BEST)
        none = tf.repeat(tf.reduce_sum(logits[:, :1], axis=-1), _BEST, axis=1)  # [windows, 20], of [CLS]
        return tf.stack([spans.scores, tf.cast(spans.starts, none.dtype), tf.cast(spans.ends, none.dtype), none], -1)

    def _packed_windows(self, question: tf.RaggedTensor, window: tf.RaggedTensor) -> dict[str, tf.Tensor]:
        """Windows that fit -> int32 `[windows, seq_length]` each."""
        packed = self.preprocessor.pack((question, window))  # [windows, 1, seq_length]
        return {name: tf.reshape(each, [-1, tf.shape(each)[2]]) for name, each in packed.items()}

    def serve(self, question: Any, context: Any) -> dict[str, Any]:
        """The serving signature, for `question` and `context`, string `[batch]` each: the best answer.

        Returns:
            `answer`, string `[batch]`, and of the same shape `start`, `end` (int32), `score`, `probability` and
            `no_answer_score` (float32), as in `answer`.
        """
        read = read_contexts(self.preprocessor, question, context)
        found = rank_answers(read, context, self._found(*read.segments), self.no_answer_threshold, top_k=1)
        served = {name: values[:, 0] for name, values in found._asdict().items() if name != "exists"}
        length = served["end"] - served["start"]
        return {"answer": tf.strings.substr(context, served["start"], length, unit="UTF8_CHAR"), **served}

    # -- For training

    def training_loss(self) -> keras.losses.Loss:
        """The loss to compile: cross-entropy of start and end."""
        return SpanLoss()

    def examples(self, x: Any, y: Any) -> TokenizedExamples:
        """Tokenizes questions and contexts, and cuts contexts into windows: each is a training example.

        Args:
            x: a tuple of two lists of str, (questions, contexts).
            y: for each question a tuple of `keras_bert.data.Answer`, or of other pairs (text, start in characters);
                the first one is the target. Empty if the context has no answer.

        Returns:
            `targets`: int32 `[windows, 2]`: positions of the answer's first and last token in the packed row; 0 and 0,
            `[CLS]`, if the window does not have the whole answer.

        Raises:
            TypeError, ValueError: the numbers of questions, contexts and answers differ, one is empty, or an answer is
                not at its start. The message has the question's number, counted from 0.
        """
        if not isinstance(x, tuple) or len(x) != 2:
            raise ValueError(f"x is a {type(x).__name__}; expected a tuple of two lists, (questions, contexts)")
        questions, contexts = checked_questions(*x)
        if len(questions) != len(y):
            raise ValueError(f"there are {len(questions):,} questions, but answers to {len(y):,}")
        places = [bytes_of_answer(*each) for each in zip(range(len(y)), contexts, y, strict=True)]
        chunks = []
        for first in range(0, len(questions) or 1, _QUESTIONS_AT_A_TIME):
            chunk = slice(first, first + _QUESTIONS_AT_A_TIME)
            read = read_contexts(self.preprocessor, as_strings(questions[chunk]), as_strings(contexts[chunk]))
            targets, lost = span_targets(self.preprocessor, read, *np.array(places[chunk], np.int64).reshape(-1, 2).T)
            for number in first + lost[:1]:
                answer = y[number][0][0]
                raise ValueError(f"question {number} (from 0): the tokenizer leaves nothing of its answer {answer!r}")
            chunks.append((*read.segments[:2], targets, row_lengths(self.preprocessor, read)))
        question, window, targets, lengths = (tf.concat(parts, axis=0) for parts in zip(*chunks, strict=True))
        return TokenizedExamples((question, window), targets, lengths.numpy())

    def batch(self, segments: tuple[tf.RaggedTensor, ...], targets: Any) -> tuple[dict[str, tf.Tensor], Any]:
        return self._packed_windows(*segments), targets

    def arrays(self, x: Any, y: Any) -> tuple[Any, Any]:
        if not (isinstance(x, tuple) and all(isinstance(each, list) for each in x)):
            return super().arrays(x, y)
        if y is None:
            return self.preprocessor(x), None
        examples = self.examples(x, y)
        return self.batch(examples.segments, examples.targets)

    # -- Files

    @classmethod
    def from_preset(
        cls,
        handle: str | Path,
        sequence_length: int | None = None,
        stride: int | None = None,
        max_answer_length: int | None = None,
        no_answer_threshold: float | None = None,
        dropout: float | None = None,
        dtype: Any = None,
    ) -> BertQuestionAnswerer:
        """A question answerer with the encoder of a preset, and the preset's head if it has one.

        Args:
            handle: a directory, a preset's name, or `hf://org/name`; see `presets.resolve`. Without such a head, a new
                one is initialized at random.
            sequence_length: the most tokens in a row; rows are padded to the longest of a batch. By default as saved
                with the preset, or 384, or the number of positions if the model has fewer.
            stride: the tokens from the start of a window to the next start; by default as saved, or 128.
            max_answer_length, no_answer_threshold, dropout: as for the constructor; by default as saved.
            dtype: a Keras dtype policy.

        Raises:
            FileNotFoundError: there is no such preset, or it lacks a file.
            ValueError: a file is damaged, or an argument is bad.
        """
        found = preset.read(handle, cls.HEAD, dtype=dtype)
        preprocessor = _preprocessor(found, sequence_length, stride)
        names = ("max_answer_length", "no_answer_threshold", "dropout")
        values = (max_answer_length, no_answer_threshold, dropout)
        given = {name: value for name, value in zip(names, values, strict=True) if value is not None}
        model = cls(found.encoder, preprocessor, **{**found.settings, **given})
        if found.has_head:
            preset.load_head(model, found)
        return model

    def settings(self) -> dict[str, Any]:
        own = {"max_answer_length": self.max_answer_length, "no_answer_threshold": self.no_answer_threshold}
        return {**super().settings(), **own}


def _preprocessor(found: preset.TaskPreset, sequence_length: int | None, stride: int | None) -> BertPreprocessor:
    saved, positions = found.preprocessor, found.encoder.config.max_positions
    is_ours = saved.stride is not None  # it was saved with the head
    if is_ours and sequence_length is None and stride is None:
        return saved
    if sequence_length is None:
        sequence_length = saved.sequence_length or saved.max_sequence_length if is_ours else min(_LONGEST, positions)
    if sequence_length > positions:
        raise ValueError(f"sequence_length is {sequence_length}, but this model has {positions} positions")
    if stride is None:
        stride = saved.stride if is_ours else _STRIDE
    return BertPreprocessor(saved.tokenizer, sequence_length=None, max_sequence_length=sequence_length, stride=stride)
