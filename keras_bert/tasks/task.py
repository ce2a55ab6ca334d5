"""BertTask: the base class of tasks, from strings to answers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert import undocumented
from keras_bert.encoder import BertEncoder
from keras_bert.formats.families import table_of
from keras_bert.optimizers import AdamW
from keras_bert.recipe import FineTuningRecipe
from keras_bert.tasks.by_length import ByLength
from keras_bert.tasks.columns import (
    as_arrays,
    as_tensors,
    check_counts,
    check_dataset,
    check_inputs,
    columns_of,
    plain,
    plain_labels,
)
from keras_bert.tasks.heads import ClassifierHead
from keras_bert.tasks.loss_means import CountsBatches, Part
from keras_bert.tasks.low_precision import LowPrecision
from keras_bert.tasks.replicas import Replicated
from keras_bert.tasks.storable import Storable
from keras_bert.text import BertPreprocessor

_TEXTS = tf.TensorSpec([None], tf.string)


class OneGraph:
    """Calls a model on texts as one graph, in a tenth of the time of hundreds of eager operations.

    Args:
        call: texts -> the model's output.
    """

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self.retrace()

    def retrace(self) -> None:
        """Drops the traced graphs."""

        def graph(*signature: tf.TensorSpec) -> Callable[..., Any]:
            call = lambda *texts: self._call(texts if len(texts) > 1 else texts[0], training=False)  # noqa: E731
            return tf.function(call, input_signature=signature, autograph=False)

        self._graphs = {number: graph(*[_TEXTS] * number) for number in (1, 2)}  # number of texts per example -> graph

    @staticmethod
    def takes(inputs: Any) -> bool:
        """Whether the inputs are texts, outside of graphs, of strategies, and of `run_eagerly`."""
        columns = inputs if isinstance(inputs, tuple) else (inputs,)
        are_texts = all(isinstance(each, tf.Tensor) and _TEXTS.is_compatible_with(each) for each in columns)
        return are_texts and len(columns) <= 2 and tf.executing_eagerly() and not tf.distribute.has_strategy()

    def __call__(self, inputs: Any) -> Any:
        """The output for a string tensor `[batch]`, or a tuple of two."""
        columns = inputs if isinstance(inputs, tuple) else (inputs,)
        return self._graphs[len(columns)](*columns)


# -- XLA (Keras's `jit_compile=True`) for models that read texts and packed inputs.


class Compilable:
    """A mixin for models with a preprocessor, so that `compile(jit_compile=True)` works.

    XLA has no strings, so Keras disables XLA, with a warning, for any model with a preprocessor layer. But a model that
    gets packed inputs never calls this layer. By default (`jit_compile="auto"`), nothing changes: XLA does not compile
    the model, and it takes texts.

    List it before `keras.Model` in the bases of a model.
    """

    @property
    def jit_compile(self) -> bool:
        return super().jit_compile

    @jit_compile.setter
    def jit_compile(self, value: Any) -> None:
        undocumented.set_jit_compile(self, value)


class TokenizedExamples(NamedTuple):
    """Training examples, tokenized once.

    Attributes:
        segments: one or two ragged int32 tensors `[examples, (tokens)]`.
        targets: the targets of the loss; the first axis is `examples`.
        lengths: int64 `[examples]`: the number of tokens of each before truncation, special tokens included.
    """

    segments: tuple[tf.RaggedTensor, ...]
    targets: tf.Tensor | tf.RaggedTensor
    lengths: np.ndarray


class BertTask(CountsBatches, Replicated, Compilable, LowPrecision, Storable, keras.Model):
    """An encoder with a preprocessor in front and heads on top.

    A subclass owns all of a task: heads, targets, loss, answers, measures, serving signature and settings. Training,
    evaluation, distillation, export and the commands only call these methods.

    Args:
        encoder: ids -> hidden states.
        preprocessor: strings -> ids. If None, which some tasks allow, the model takes packed inputs only.

    Call arguments:
        inputs: string `[batch]` (a tensor, or a list of str); for pairs, a tuple of two; or packed inputs: the dict
            that the preprocessor makes of them, for example in a `tf.data` pipeline.

    Returns:
        float32: the output of the heads. Its shape depends on the task.

    Raises:
        TypeError: the encoder or the preprocessor is something else.
        ValueError: vocabulary and embedding table differ in size, or the family has no such head.
    """

    READS_PACKED: ClassVar[bool] = False  # whether the task is of use without a preprocessor
    EXAMPLES: ClassVar[type | None] = None  # the class of `keras_bert.data` that holds its examples
    # For the README of an export to other runtimes: Python that prints answers. `texts` are the inputs, `rows` their
    # encodings by `tokenizers`, and `outputs` the model's outputs, named as in `serve_packed`.
    ANSWERS_PROGRAM: ClassVar[str] = "print({name: output.shape for name, output in outputs.items()})"
    ANSWERS_TEXTS: ClassVar[tuple[Any, ...] | None] = None

    _by_length: ByLength | None = None  # runs the model over texts
    _eager_call: OneGraph  # runs it on a batch of texts

    def __init__(self, encoder: BertEncoder, preprocessor: BertPreprocessor | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(encoder, BertEncoder):
            raise TypeError(f"encoder is {encoder!r:.60}; expected a BertEncoder")
        if not isinstance(preprocessor, BertPreprocessor | None) or (preprocessor is None and not self.READS_PACKED):
            raise TypeError(f"preprocessor is {preprocessor!r:.60}; expected a BertPreprocessor")
        if preprocessor is not None:
            tokenizer = preprocessor.tokenizer
            encoder.config.check_vocabulary(tokenizer.vocabulary_size, tokenizer.is_whole)
        self.encoder = encoder
        self.preprocessor = preprocessor
        self._eager_call = OneGraph(super().__call__)

    def _add_head(self, units: int, dropout: float | None) -> None:
        """Adds the task's classifier head with `units` logits. `dropout` defaults to the encoder's `hidden_dropout`."""
        if dropout is not None and not (isinstance(dropout, Real) and 0 <= dropout < 1):
            raise ValueError(f"dropout is {dropout!r:.60}; expected a probability, at least 0 and below 1")
        self.dropout_rate = dropout
        config, dtype = self.encoder.config, self.encoder.dtype_policy
        self.head = ClassifierHead(config, self.HEAD, units, dropout, dtype=dtype, name=f"{self.HEAD}_head")
        self.head.build()
        self.built = True
        self._by_length = ByLength(self.preprocessor, lambda texts: self(self.preprocessor.pack(texts), training=False))

    def __call__(self, inputs: Any, **kwargs: Any) -> Any:
        # Here and not in `call`, because Keras takes only tensors as positional arguments.
        inputs = as_tensors(inputs)
        if kwargs.get("training") or not self._eager_call.takes(inputs):
            return super().__call__(inputs, **kwargs)
        return self._eager_call(inputs)

    def packed(self, inputs: Any) -> dict[str, Any]:
        """The encoder's inputs, from strings or packed inputs."""
        return inputs if isinstance(inputs, dict) else self.preprocessor(inputs)

    @property
    def reads_pooler(self) -> bool:
        """Whether the output depends on the encoder's pooler."""
        table = table_of(self.encoder.config)
        return any(table.reads_pooler(head) for head in self.heads)

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """The trainable variables, without those of an unused pooler: Keras would warn that they have no gradients."""
        unread = [] if self.encoder.pooler is None or self.reads_pooler else self.encoder.pooler.variables
        return [each for each in super().trainable_variables if all(each is not other for other in unread)]

    @property
    def trainable_weights(self) -> list[keras.Variable]:
        return self.trainable_variables

    def retrace(self) -> None:
        """Drops traced graphs. Call it when the layers have changed; a change of weights needs no call."""
        self._eager_call.retrace()
        for each in self._runners:
            each.retrace()

    @property
    def _runners(self) -> Iterable[ByLength]:
        """The objects that run the model over texts."""
        return () if self._by_length is None else (self._by_length,)

    # -- Keras's methods, for lists of str as well

    def compile(self, optimizer: Any = None, *args: Any, **kwargs: Any) -> None:
        """Keras's `compile`; the optimizer is by default `AdamW()`, with the paper's highest rate of fine-tuning."""
        super().compile(AdamW() if optimizer is None else optimizer, *args, **kwargs)

    def fit(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> keras.callbacks.History:
        """Keras's `fit`; `x` may also be a list of str or a tuple of two lists, and `y` labels, as for `targets`.

        `class_weight` takes names or indices of labels.
        """
        given = inspect.signature(super().fit).bind_partial(x, y, *args, **kwargs).arguments
        if isinstance(data := given.get("validation_data"), tuple | list):
            given["validation_data"] = (*self._examples_for_keras("validate with", *data[:2]), *data[2:])
        if given.get("class_weight") is not None:
            recipe = FineTuningRecipe.of(class_weight=given["class_weight"])  # checks the values
            given["class_weight"] = self.class_weights(recipe.class_weight)
        given["x"], given["y"] = self._examples_for_keras("train on", x, y)
        return super().fit(**given)

    def evaluate(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Keras's `evaluate`; see `fit`."""
        return super().evaluate(*self._examples_for_keras("evaluate with", x, y), *args, **kwargs)

    def _examples_for_keras(self, purpose: str, x: Any, y: Any = None) -> tuple[Any, Any]:
        """Arrays of examples and labels. Raises TypeError or ValueError for those that Keras could not read."""
        check_dataset(x)
        check_inputs(x)
        inputs, targets = self.arrays(plain(x), self._labels(y))
        count = check_counts(inputs, targets)
        if count == 0:
            raise ValueError(f"there are no examples to {purpose}")
        if targets is None and count is not None and not isinstance(x, dict):
            raise ValueError(f"there are {count:,} examples to {purpose}, but no labels")
        return inputs, targets

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Keras's `predict`: the outputs of a call; `x` may also be a list of str or a tuple of two lists."""
        check_inputs(x)
        inputs = self.arrays(plain(x), None)[0]
        if check_counts(inputs, None) == 0:  # Keras fails
            return keras.tree.map_structure(ops.convert_to_numpy, self(inputs, training=False))
        return super().predict(inputs, *args, **kwargs)

    @property
    def label_columns(self) -> Sequence[str]:
        """The names of the columns of a table of labels, in their order; empty: any."""
        return ()

    def _labels(self, y: Any) -> Any:
        """Labels as a list or an array. Raises TypeError or ValueError if they are not labels of many texts."""
        return plain_labels(y, self.label_columns)

    def arrays(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Examples and labels -> arrays for Keras to batch; arrays stay as they are."""
        return as_arrays(x), self.targets(y)

    # -- Learning: examples are tokenized once, batches packed in the graph

    def training_loss(self) -> Any:
        """The loss to compile with."""
        raise TypeError(f"a {type(self).__name__} has no loss of its own; compile it with a loss, and call fit")

    def loss_for(self, examples: TokenizedExamples) -> Any:
        """The default loss for these examples."""
        return self.training_loss()

    def targets(self, y: Any) -> Any:
        """Labels -> targets of a loss; arrays and tensors of numbers stay as they are."""
        return self._labels(y)

    def examples(self, x: Any, y: Any) -> TokenizedExamples:
        """Tokenizes examples for training.

        Args:
            x: a list of str, or a tuple of two lists.
            y: a label per text, as for `targets`.

        Raises:
            ValueError: `x` and `y` differ in length, or a label is not one of the model's.
        """
        columns = columns_of(x)
        y = self._labels(y)
        if y is None:
            raise ValueError(f"there are {len(columns[0]):,} texts, but no labels")
        if len({len(column) for column in (*columns, y)}) > 1:
            counts = " and ".join(f"{len(column):,}" for column in columns)
            raise ValueError(f"there are {counts} texts, but {len(y):,} labels")
        segments = tuple(self.preprocessor.tokenizer.tokenize(list(column)) for column in columns)
        lengths = self._by_length.lengths(list(segments))
        return TokenizedExamples(segments, tf.convert_to_tensor(self.targets(y)), lengths)

    def batch(self, segments: tuple[tf.RaggedTensor, ...], targets: Any) -> tuple[dict[str, tf.Tensor], Any]:
        """A batch of `examples` -> the `(x, y)` of a training step. For `tf.data`."""
        return self.preprocessor.pack(segments), targets

    def doubts(self, targets: Any) -> list[str]:
        """Warnings about the targets of `examples`, one sentence each; `fine_tune` shows them."""
        return []

    def start_from(self, targets: Any) -> None:
        """Initializes a new head from the targets of `examples`, if the task can."""

    def compute_in_mini_batches(self, size: int | None) -> None:
        """Makes training steps compute `size` texts at a time; None: the whole batch.

        Raises:
            ValueError: `size` is below 1, or the task's loss does not compare the texts of a batch.
        """
        if size is not None:
            raise ValueError(
                f"mini_batch_size is for sentence vectors, not for a {type(self).__name__}; with accumulate, several "
                "small batches make a large one"
            )

    def class_weights(self, weights: Mapping[Any, float]) -> dict[int, float]:
        """The weight of each label, by index.

        Args:
            weights: by name or index; by default 1.

        Raises:
            ValueError: the task has no class weights, or there is no such label.
        """
        raise ValueError("class_weight is only for classifiers that give each text one class")

    def check_teacher(self, teacher: Any) -> None:
        """Raises ValueError if this model cannot learn from this teacher."""
        if type(self).distillation_parts is BertTask.distillation_parts:
            raise ValueError(f"a {type(self).__name__} cannot learn from a teacher; classifiers and pre-trainers can")
        if type(teacher) is not type(self):
            raise ValueError(
                f"a {type(self).__name__} cannot learn from a {type(teacher).__name__}: they differ in class"
            )
        if teacher.preprocessor.tokenizer.vocabulary != self.preprocessor.tokenizer.vocabulary:
            raise ValueError("the teacher has another vocabulary; teacher and student must have the same tokens")

    def distillation_parts(
        self, parts: list[Part], teacher: Any, x: Any, y_pred: Any, sample_weight: Any, temperature: float
    ) -> list[Part]:
        """Combines the loss on the labels with a loss on a teacher's answers; see `learning_from`."""
        raise NotImplementedError

    # -- Answers, and measures of them

    @property
    def text_names(self) -> tuple[str, ...]:
        """The names of the texts that the task reads, as in a serving signature."""
        return ("text",)

    @property
    def example_settings(self) -> dict[str, Any]:
        """The model's settings that readers of examples need: its `problem_type`, if it has one."""
        return {}

    def answers(self, x: Any) -> list[Any]:
        """The answers to examples, as `measures` reads them.

        Args:
            x: as `fit` takes it.
        """
        raise TypeError(f"no measures are known for a {type(self).__name__}; evaluate it with Keras's own metrics")

    def measures(self, answers: Sequence[Any], y: Any) -> dict[str, float]:
        """Measures answers against labels. The first measure is the one to choose models by."""
        raise TypeError(f"no measures are known for a {type(self).__name__}; evaluate it with Keras's own metrics")

    def details(self, answers: Sequence[Any], y: Any) -> dict[str, float]:
        """Further measures, such as those of each class."""
        return {}

    def mistakes(self, answers: Sequence[Any], y: Any) -> list[int]:
        """The indices of wrongly answered examples. Raises TypeError if the task has no right and wrong answers."""
        raise TypeError(f"a {type(self).__name__} has no right and wrong answers, so it has no mistakes to count")

    def worst(self, answers: Sequence[Any], y: Any) -> list[int]:
        """The indices of `mistakes`, worst first; for regression, all indices, the largest error first.

        The worst are those with the most labels wrong, or with the highest probability.
        """
        return self.mistakes(answers, y)

    def compared(self, answer: Any, label: Any) -> list[dict[str, Any]]:
        """A label and an answer side by side, as rows of a table for people: column -> value. Most have one row."""
        return [{"label": label, "answer": answer}]

    def confusion(self, answers: Sequence[Any], y: Any) -> tuple[list[str], np.ndarray] | None:
        """The classes and the confusion matrix; None if the task does not give each text one class."""
        return None

    def check_examples(self, x: Any, y: Any) -> None:
        """Raises the errors of `answers` and `measures` that can be found before the model runs."""
        if type(self).measures is BertTask.measures:
            self.measures([], y)  # raises
        columns = columns_of(x)
        self.targets(y)
        labels = 0 if y is None else len(y)
        if {len(column) for column in columns} != {labels}:
            counts = " and ".join(f"{len(column):,}" for column in columns)
            raise ValueError(f"there are {counts} examples to evaluate with, but labels of {labels:,}")
        if not labels:
            raise ValueError("there are no examples to evaluate with")

    def answer_fields(self, *texts: list[str]) -> Iterable[dict[str, Any]]:
        """The answers to texts, each as the fields of a line of JSON.

        Args:
            *texts: for each of `text_names`, a list of str.
        """
        raise TypeError(f"a {type(self).__name__} gives no answers to single texts")

    def serve_packed(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The named outputs for packed inputs, for runtimes without strings. It uses `keras.ops` only.

        Args:
            inputs: the encoder's inputs, int `[batch, seq_length]` each.
        """
        raise TypeError(f"a {type(self).__name__} has no outputs for other runtimes; export a fine-tuned model instead")
