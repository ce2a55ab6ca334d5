"""BertQuestionAnswerer: finds the span of a context that answers a question (Devlin et al. 2018, section 4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from tqdm import tqdm

from keras_bert.answers.by_length import check_finite
from keras_bert.answers.columns import Labels, Targets, Texts
from keras_bert.answers.spans import (
    NEVER,
    NUM_BEST,
    QUESTIONS_AT_A_TIME,
    QuestionAnswerer,
    SpanAnswer,
    SpanAnswers,
    checked_questions,
)
from keras_bert.counted import counted
from keras_bert.data import Examples
from keras_bert.data.task_files import AnswerFiles
from keras_bert.encoder import BertEncoder
from keras_bert.tasks.base.by_length import GraphByLength
from keras_bert.tasks.base.columns import Inputs
from keras_bert.tasks.base.task import BertTask, TokenizedExamples, ToTrain
from keras_bert.tasks.heads import spans
from keras_bert.tasks.heads.long_text import sequence_output
from keras_bert.tasks.kinds import Kind
from keras_bert.tensors import Tensor
from keras_bert.text import BertPreprocessor
from keras_bert.text.strings import as_strings

_MAX_LENGTH, _STRIDE = 384, 128  # run_squad.py's max_seq_length, doc_stride


class Spans(SpanAnswers, Kind[list[SpanAnswer]]):
    """`SpanAnswers`, learned as the positions of the first and the last token."""

    def loss(self) -> keras.losses.Loss:
        return spans.SpanLoss()


@keras.saving.register_keras_serializable(package="keras_bert")
class BertQuestionAnswerer(QuestionAnswerer, BertTask):
    """A model that finds the answer to a question in a context.

    A context too long for a row is read in windows, and the answer is the best span of all windows. Windows overlap: an
    answer that starts at some token is read only from the window where this token has the most context.

    Args:
        encoder: see `BertTask`.
        preprocessor: one with a stride, which makes windows.
        max_answer_length: the most tokens in an answer.
        no_answer_threshold: the model predicts "no answer" if `no_answer_score` is higher (SQuAD 2.0). None: it always
            predicts an answer, until `fine_tune` sets the attribute.
        dropout: the rate before the head; the paper's code and `transformers` have none.

    Call arguments:
        inputs: pairs (questions, contexts), or packed inputs, see `BertTask`.

    Returns:
        float32 `[batch, windows, seq_length, 2]`: the start and end logits of each token, special tokens included, and
        `NEVER` at padding. For packed inputs without windows, `[batch, seq_length, 2]`.

    Example:
        >>> model = BertQuestionAnswerer.from_preset("all-MiniLM-L6-v2")
        >>> context = "Ada Lovelace wrote the first program in 1843."
        >>> answer = model.answer("Who wrote it?", context)
        >>> answer["answer"] == context[answer["start"] : answer["end"]]
        True
    """

    preprocessor: BertPreprocessor

    READS_WINDOWS = True
    WINDOWS = (_MAX_LENGTH, _STRIDE)

    def __init__(
        self,
        encoder: BertEncoder,
        preprocessor: BertPreprocessor,
        max_answer_length: int = 30,
        no_answer_threshold: float | None = None,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(encoder, preprocessor, **kwargs)
        if preprocessor.stride is None:
            raise ValueError(
                "the preprocessor has no stride, so the ends of long contexts would be lost; use "
                f"BertPreprocessor(..., stride={_STRIDE})"
            )
        if max_answer_length < 1:
            raise ValueError(f"max_answer_length is {max_answer_length}; an answer has at least one token")
        self._add_head(2, dropout)
        self.max_answer_length = max_answer_length
        self.no_answer_threshold = no_answer_threshold
        self._by_length = GraphByLength(preprocessor, lambda segments: self._find_spans(*segments), self._graphs)

    @classmethod
    def to_train(cls, settings: AnswerFiles, preset: str | Path, examples: Examples) -> ToTrain:
        model = cls.from_preset(preset, sequence_length=settings.sequence_length)
        if settings.no_answer_threshold is not None or not all(map(len, examples.labels or ())):
            model.no_answer_threshold = settings.no_answer_threshold  # None: the run chooses it
        return model, {}

    def call(self, inputs: Inputs, training: bool | None = None) -> Tensor:
        if not isinstance(inputs, dict | tuple | list):
            raise ValueError("a question answerer takes pairs: a tuple of two, (questions, contexts)")
        packed = self.packed(inputs)
        hidden = sequence_output(self.encoder, packed, training)
        logits = ops.cast(self.head(hidden, training=training), "float32")
        if "input_mask" not in packed:
            return logits
        return ops.where(ops.expand_dims(packed["input_mask"], -1) > 0, logits, NEVER)  # padding holds no answer

    # -- From questions to answers

    def _answers(
        self, questions: list[str], contexts: list[str], top_k: int, batch_tokens: int, bar: tqdm
    ) -> list[list[SpanAnswer]]:
        texts = as_strings(contexts)
        tokenized = spans.read_contexts(self.preprocessor, as_strings(questions), texts)
        lengths = np.maximum(spans.row_lengths(self.preprocessor, tokenized), self.preprocessor.sequence_length or 0)
        bar.total += len(lengths)
        outputs = self._by_length.compute(list(tokenized.segments), lengths, batch_tokens, bar)
        check_finite(outputs, item="window")
        outputs = spans.rank_answers(tokenized, texts, tf.constant(np.array(outputs)), self.no_answer_threshold, top_k)
        columns = {name: values.numpy().tolist() for name, values in outputs._asdict().items()}  # each [batch, top_k]
        answers = []
        for index, context in enumerate(contexts):
            ranked = [{name: values[index][rank] for name, values in columns.items()} for rank in range(top_k)]
            answers.append(
                [{"answer": context[each["start"] : each["end"]], **each} for each in ranked if each.pop("exists")]
            )
        return answers

    def _find_spans(self, question: tf.RaggedTensor, window: tf.RaggedTensor, is_best: tf.RaggedTensor) -> tf.Tensor:
        """Finds the best spans in rows of `Contexts.segments`: score, first and last token, and the score of [CLS]."""
        logits = self(self._packed_windows(question, window), training=False)  # [windows, seq_length, 2]
        may_start = is_best.to_tensor() > 0  # [windows, tokens]
        tokens = tf.range(tf.shape(may_start, tf.int64)[1])
        positions = spans.tokens_before(self.preprocessor, question)[:, None] + tokens
        positions = tf.minimum(positions, tf.shape(logits, tf.int64)[1] - 1)  # for the shorter windows
        token_logits = tf.gather(logits, positions, batch_dims=1)  # [windows, tokens, 2]
        best = spans.best_spans(token_logits, may_start, window.row_lengths(), self.max_answer_length, NUM_BEST)
        no_answer = tf.repeat(tf.reduce_sum(logits[:, :1], axis=-1), NUM_BEST, axis=1)  # [windows, 20], of [CLS]
        starts, ends = (tf.cast(each, no_answer.dtype) for each in (best.starts, best.ends))
        return tf.stack([best.scores, starts, ends, no_answer], axis=-1)  # [windows, 20, 4]

    def _packed_windows(self, question: tf.RaggedTensor, window: tf.RaggedTensor) -> dict[str, tf.Tensor]:
        """Packs questions with windows that fit into a row, int32 `[windows, seq_length]` each."""
        packed = self.preprocessor.pack((question, window))  # [windows, 1, seq_length]
        return {name: tf.reshape(each, [-1, tf.shape(each)[2]]) for name, each in packed.items()}

    def serve(self, question: tf.Tensor, context: tf.Tensor) -> dict[str, tf.Tensor]:
        """Serves `question` and `context`, string `[batch]` each, with the best answer.

        Returns:
            `answer`, string `[batch]`, and of the same shape `start`, `end` (int32), `score`, `probability` and
            `no_answer_score` (float32), as in `answer`.
        """
        tokenized = spans.read_contexts(self.preprocessor, question, context)
        answers = spans.rank_answers(
            tokenized, context, self._find_spans(*tokenized.segments), self.no_answer_threshold, top_k=1
        )
        outputs = {name: values[:, 0] for name, values in answers._asdict().items() if name != "exists"}
        outputs["probability"] = tf.cast(outputs["probability"], tf.float32)
        length = outputs["end"] - outputs["start"]
        return {"answer": tf.strings.substr(context, outputs["start"], length, unit="UTF8_CHAR"), **outputs}

    def serve_packed(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes `start_logits` and `end_logits`, float32 `[batch, seq_length]` each, `NEVER` at padding."""
        logits = self(inputs, training=False)
        return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}

    # -- For training

    def examples(self, x: Texts, y: Labels | None) -> TokenizedExamples:
        """Tokenizes questions and contexts, and splits contexts into windows. Each window is a training example.

        Args:
            x: a tuple of two lists of str, (questions, contexts).
            y: for each question, a tuple of `keras_bert.data.Answer`, or of other pairs (text, start in characters).
                The first answer is the target. The tuple is empty if the context has no answer.

        Returns:
            `targets`: int32 `[windows, 2]`: positions of the answer's first and last token in the packed row; 0 and 0,
                the position of `[CLS]`, if the window does not hold the whole answer.

        Raises:
            TypeError, ValueError: the numbers of questions, contexts and answers differ, one is empty, or an answer is
                not in its context at its start. The message has the question's index, from 0.
        """
        if not isinstance(x, tuple) or len(x) != 2:
            raise ValueError(f"x is a {type(x).__name__}; expected a tuple of two lists, (questions, contexts)")
        questions, contexts = checked_questions(*x)
        y = self.kind.plain(y)
        if y is None:
            raise ValueError(f"got {counted(questions, 'question')}, but no answers")
        if len(questions) != len(y):
            raise ValueError(f"got {counted(questions, 'question')}, but answers to {len(y):,}")
        byte_spans = [spans.answer_byte_span(*each) for each in zip(range(len(y)), contexts, y, strict=True)]
        chunks = []
        for first in range(0, len(questions) or 1, QUESTIONS_AT_A_TIME):
            chunk = slice(first, first + QUESTIONS_AT_A_TIME)
            texts = as_strings(questions[chunk]), as_strings(contexts[chunk])
            tokenized = spans.read_contexts(self.preprocessor, *texts)
            targets, without_tokens = spans.span_targets(
                self.preprocessor, tokenized, *np.array(byte_spans[chunk], np.int64).reshape(-1, 2).T
            )
            for number in first + without_tokens[:1]:
                answer = y[number][0][0]
                raise ValueError(f"question {number} (from 0): its answer {answer!r} has no tokens")
            chunks.append((*tokenized.segments[:2], targets, spans.row_lengths(self.preprocessor, tokenized)))
        question, window, targets, lengths = (tf.concat(parts, axis=0) for parts in zip(*chunks, strict=True))
        return TokenizedExamples((question, window), targets, lengths.numpy())

    def batch(self, segments: tuple[tf.RaggedTensor, ...], targets: tf.Tensor) -> tuple[Inputs, tf.Tensor]:
        return self._packed_windows(*segments), targets

    def arrays(self, x: Texts | Inputs, y: Labels | None) -> tuple[Inputs, Targets | None]:
        if not (isinstance(x, tuple) and all(isinstance(each, list) for each in x)):
            return super().arrays(x, y)
        if y is None:
            return self.preprocessor(x), None
        examples = self.examples(x, y)
        return self.batch(examples.segments, examples.targets)

    # -- Answers

    @property
    def kind(self) -> Spans:
        return Spans(self.no_answer_threshold)
