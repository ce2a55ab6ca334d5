"""BertTask: the base class of tasks, which read strings and return answers."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Iterator, Mapping
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert import undocumented
from keras_bert.answers.answerer import Answerer
from keras_bert.answers.columns import Labels, Targets, Texts, plain
from keras_bert.answers.tokens import NO_PREPROCESSOR
from keras_bert.counted import counted
from keras_bert.data import Examples
from keras_bert.encoder import BertEncoder
from keras_bert.optimizers import AdamW
from keras_bert.recipe import FineTuningRecipe
from keras_bert.task_table import TASKS
from keras_bert.tasks.base.by_length import STRINGS, GraphByLength, Graphs, are_texts
from keras_bert.tasks.base.columns import Inputs, as_arrays, as_tensors, as_weights, check_counts, check_inputs
from keras_bert.tasks.base.storable import Storable, UntrainedWarning
from keras_bert.tasks.heads import ClassifierHead, MaskedLMHead
from keras_bert.tasks.kinds import Kind
from keras_bert.tasks.steps import training_step
from keras_bert.tasks.steps.batching import PARTS, batch_arrays, batch_arrays_for_fit, split_validation, weigh_examples
from keras_bert.tasks.steps.replicas import Replicated, run_update
from keras_bert.tensors import Tensor
from keras_bert.text import BertPreprocessor

ToTrain: TypeAlias = "tuple[BertTask, dict[str, Any]]"  # a model, and arguments for `fine_tune`


class TokenizedExamples(NamedTuple):
    """Training examples, tokenized once."""

    segments: tuple[tf.RaggedTensor, ...]  # int32 [examples, (tokens)], one for each column of texts: two for pairs
    targets: tf.Tensor | tf.RaggedTensor  # of the loss; the first axis is `examples`
    lengths: np.ndarray  # int64 [examples], the tokens before truncation, special tokens included


class BertTask(Replicated, Storable, Answerer):
    """An encoder with a preprocessor in front and heads on top: the base class of all models for tasks.

    A subclass owns all of a task: heads, targets, loss, answers, measures, serving signature and settings. Training,
    evaluation, distillation, export and the commands only call these methods.

    Args:
        encoder: ids -> hidden states.
        preprocessor: strings -> ids. Some tasks allow None; the model then takes packed inputs only.

    Call arguments:
        inputs: string `[batch]` (a tensor, or a list of str); for pairs, a tuple of two. Or packed inputs: the dict
            that the preprocessor makes of texts, for example in a `tf.data` pipeline.

    Returns:
        float32: the output of the heads. Its shape depends on the task.

    Raises:
        TypeError: `encoder` is not a `BertEncoder`, or `preprocessor` is not a `BertPreprocessor`.
        ValueError: an argument is bad, vocabulary and embedding table differ in size, or the family has no such head.
    """

    # `TASK`, `HEAD`, `LIBRARY` and `FILES` of a task are those of its row in `TASKS`.
    PREPROCESSOR_IS_OPTIONAL: ClassVar[bool] = False  # whether the preprocessor may be None
    EQUAL_IN_TEACHER: ClassVar[tuple[str, ...]] = ()  # attributes in which a teacher and its student must agree
    READS_WINDOWS: ClassVar[bool] = False  # whether the preprocessor may split long texts into windows
    COMPARES_TEXTS: ClassVar[bool] = False  # whether its losses compare the vectors of all texts of a batch

    encoder: BertEncoder
    preprocessor: BertPreprocessor | None  # None only if `PREPROCESSOR_IS_OPTIONAL`; others declare it without
    head: ClassifierHead | MaskedLMHead  # of a task with a `HEAD`
    kind: Kind = Kind()  # what its labels and answers are

    _by_length: GraphByLength
    _forward: training_step.Forward = staticmethod(training_step.on_labels)  # computes the loss of a batch in training

    def __init_subclass__(cls, **kwargs: Any) -> None:
        for task in TASKS:
            if task.model == cls.__name__:
                cls.TASK, cls.HEAD, cls.LIBRARY = task.model, task.head, task.library
        super().__init_subclass__(**kwargs)

    @classmethod
    def to_train(cls, settings: Any, preset: str | Path, examples: Examples) -> ToTrain:
        """Loads the model of a preset to train on examples of files, and returns it with arguments for `fine_tune`."""
        return cls.from_preset(preset, sequence_length=settings.sequence_length), {}

    def __init__(self, encoder: BertEncoder, preprocessor: BertPreprocessor | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(encoder, BertEncoder):
            raise TypeError(f"encoder is {encoder!r:.60}; expected a BertEncoder")
        is_missing = preprocessor is None and not self.PREPROCESSOR_IS_OPTIONAL
        if is_missing or not isinstance(preprocessor, BertPreprocessor | None):
            raise TypeError(f"preprocessor is {preprocessor!r:.60}; expected a BertPreprocessor")
        if preprocessor is not None:
            tokenizer = preprocessor.tokenizer
            encoder.config.check_vocabulary(tokenizer.vocabulary_size, tokenizer.is_whole)
            if preprocessor.stride is not None and not self.READS_WINDOWS:
                raise ValueError(
                    f"a {type(self).__name__} cannot read windows (long_text='windows', here with the stride "
                    f"{preprocessor.stride}); use long_text='truncate' or 'head_tail', or split long texts yourself"
                )
        self.encoder = encoder
        self.preprocessor = preprocessor
        self._graphs = Graphs()
        self.has_own_loss = type(self).compute_loss is not BertTask.compute_loss  # that of a user's subclass

    def _add_head(self, units: int, dropout: float | None) -> None:
        """Adds the task's classifier head with `units` logits. `dropout` defaults to the encoder's `hidden_dropout`."""
        if dropout is not None and not (isinstance(dropout, Real) and 0 <= dropout < 1):
            raise ValueError(f"dropout is {dropout!r:.60}; expected a probability, at least 0 and below 1")
        assert self.HEAD is not None  # a task with a classifier head reads texts
        self.dropout_rate = dropout
        config, dtype = self.encoder.config, self.encoder.dtype_policy
        self.head = ClassifierHead(config, self.HEAD, units, dropout, dtype=dtype, name=f"{self.HEAD}_head")
        self.head.build()
        self.built = True
        preprocessor = self._required_preprocessor
        compute = lambda texts: self(preprocessor.pack(texts), training=False)  # noqa: E731
        self._by_length = GraphByLength(preprocessor, compute, self._graphs)

    @property
    def _required_preprocessor(self) -> BertPreprocessor:
        """The preprocessor of a model that takes texts. Raises ValueError if it has none."""
        if self.preprocessor is None:
            raise ValueError(NO_PREPROCESSOR)
        return self.preprocessor

    def __call__(self, inputs: Texts | Inputs, **kwargs: Any) -> Tensor:
        # Texts become tensors here and not in `call`, because Keras takes only tensors as positional arguments.
        inputs = as_tensors(inputs)
        columns, call = inputs if isinstance(inputs, tuple) else (inputs,), super().__call__
        if kwargs.get("training") or not are_texts(columns):
            return call(inputs, **kwargs)

        def on_texts(*texts: tf.Tensor) -> Tensor:
            return call(texts[0] if len(texts) == 1 else texts, training=False)

        return self._graphs.get(("call", len(columns)), on_texts, [STRINGS] * len(columns))(*columns)

    def packed(self, inputs: Inputs) -> dict[str, Tensor]:
        """Packs strings into the encoder's inputs; packed inputs stay as they are."""
        return inputs if isinstance(inputs, dict) else self._required_preprocessor(inputs)

    def warn_if_untrained(self) -> None:
        message, self._untrained = self._untrained, None
        if message and not np.any(self.head.logits.bias):  # training leaves no bias at exactly 0
            warnings.warn(message, UntrainedWarning, stacklevel=3)

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """The trainable variables, without those of an unused pooler: Keras would warn that they have no gradients."""
        config, pooler, unused = self.encoder.config, self.encoder.pooler, []
        if pooler is not None and not any(config.reads_pooler(head) for head in self.heads):
            unused = pooler.variables
        return [each for each in super().trainable_variables if all(each is not other for other in unused)]

    @property
    def trainable_weights(self) -> list[keras.Variable]:
        return self.trainable_variables

    def reset_graphs(self) -> None:
        """Drops traced graphs. Call it after layers have changed; after a change of weights only, graphs stay valid."""
        self._graphs.clear()

    # -- Keras's methods, for lists of str as well

    @property
    def jit_compile(self) -> bool:
        """Whether XLA compiles the model."""
        # XLA has no strings, so Keras would disable XLA, with a warning, for any model with a preprocessor layer. But a
        # model that gets packed inputs never calls this layer, so `jit_compile=True` compiles it here. The default,
        # `jit_compile="auto"`, leaves XLA off, and the model takes texts.
        return super().jit_compile

    @jit_compile.setter
    def jit_compile(self, value: bool | str) -> None:
        undocumented.set_xla(self, value)

    def compile(self, optimizer: keras.optimizers.Optimizer | str | None = None, *args: Any, **kwargs: Any) -> None:
        """Compiles as Keras does. By default, the optimizer is `AdamW()` with the paper's highest fine-tuning rate."""
        super().compile(AdamW() if optimizer is None else optimizer, *args, **kwargs)
        for loss in (self.loss, getattr(self.loss, "loss", None)):  # of several replicas, `GlobalMean` has it
            if follow := getattr(loss, "follow", None):
                follow(self.optimizer)

    def fit(
        self, x: Texts | Inputs | None = None, y: Labels | None = None, *args: Any, **kwargs: Any
    ) -> keras.callbacks.History:
        """Trains as Keras's `fit` does, and also takes texts.

        `x` may be a list of str or a tuple of two lists, and `y` labels as for `targets`. The keys of `class_weight`
        are names or indices of labels; "balanced" gives all classes the same share of the loss. With several labels
        per text, the weight of a label counts for the texts that have it.

        An optimizer with `gradient_accumulation_steps` takes the mean of the batches' gradients, as in Keras, whatever
        the batches hold; `fine_tune(accumulate=...)` weighs them by what they hold.

        Raises:
            TypeError, ValueError: Keras could not read the examples, or there are not as many weights; or
                `class_weight` is bad, or comes with `sample_weight`, or the data are neither arrays nor a
                `tf.data.Dataset`.
        """
        arguments = inspect.signature(super().fit).bind_partial(x, y, *args, **kwargs).arguments
        if isinstance(data := arguments.get("validation_data"), tuple | list):
            arguments["validation_data"] = (*_arrays(self, "validate with", *data[:3]), *data[3:])
        arguments |= zip(PARTS, _arrays(self, "train on", x, y, arguments.get("sample_weight")), strict=True)
        split_validation(arguments)  # before the weights of classes, which are for training only
        if class_weight := FineTuningRecipe.of(class_weight=arguments.pop("class_weight", None)).class_weight:
            weigh_examples(self, arguments, class_weight)
        return super().fit(**batch_arrays_for_fit(arguments))

    def evaluate(self, x: Texts | Inputs | None = None, y: Labels | None = None, *args: Any, **kwargs: Any) -> Any:
        """Evaluates as Keras does, and also takes texts; see `fit`."""
        arguments = inspect.signature(super().evaluate).bind_partial(x, y, *args, **kwargs).arguments
        arguments |= arguments.pop("kwargs", {})  # Keras's own, in the validation of `fit`
        weights = arguments.get("sample_weight")
        arguments |= zip(PARTS, _arrays(self, "evaluate with", x, y, weights), strict=True)
        return super().evaluate(**batch_arrays(arguments))

    def predict(self, x: Texts | Inputs, *args: Any, **kwargs: Any) -> Any:
        """Computes outputs as Keras's `predict` does; `x` may also be a list of str or a tuple of two lists."""
        check_inputs(x, has_labels=False)
        inputs = self.arrays(plain(x), None)[0]
        if check_counts(inputs, None) == 0:  # Keras's `predict` fails without examples
            return keras.tree.map_structure(ops.convert_to_numpy, self(inputs, training=False))
        arguments = inspect.signature(super().predict).bind_partial(inputs, *args, **kwargs).arguments
        return super().predict(**batch_arrays(arguments))

    def arrays(self, x: Texts | Inputs, y: Labels | None) -> tuple[Inputs, Targets | None]:
        """Converts examples and labels to arrays for Keras to batch; arrays stay as they are."""
        return as_arrays(x), self.targets(y)

    # -- Training: examples are tokenized once, and batches are packed in the graph

    def training_loss(self) -> keras.losses.Loss:
        """Returns the loss to compile with. Raises TypeError if the task has none."""
        return self.kind.loss()

    def targets(self, y: Labels | None) -> Targets:
        """Converts labels, as names or indices, to targets of a loss; arrays of rows, and tensors, are only checked.

        Raises:
            TypeError: `y` does not hold the labels of many examples.
            ValueError: there is no label of this name or index, a number could be both, a row has more or fewer labels
                than the model, or a value is not a finite number, or of several labels not from 0 to 1.
        """
        return self.kind.targets(y)

    def examples(self, x: Texts, y: Labels | None) -> TokenizedExamples:
        """Tokenizes examples for training.

        Args:
            x: a list of str, or a tuple of two lists.
            y: a label per text, as for `targets`.

        Raises:
            ValueError: `x` and `y` differ in length, or a label is not one of the model's.
        """
        columns = self.columns(x)
        targets = self.kind.targets_of(columns, y)
        segments = tuple(self._required_preprocessor.tokenizer.tokenize(list(column)) for column in columns)
        lengths = self._by_length.lengths(list(segments))
        return TokenizedExamples(segments, tf.convert_to_tensor(targets), lengths)

    def batch(self, segments: tuple[tf.RaggedTensor, ...], targets: tf.Tensor) -> tuple[Inputs, tf.Tensor]:
        """Packs a batch of `examples` into the `(x, y)` of a training step, in a `tf.data` pipeline."""
        return self._required_preprocessor.pack(segments), targets

    # -- A step of training

    @contextlib.contextmanager
    def training_with(self, forward: training_step.Forward) -> Iterator[None]:
        """Trains by another computation of the loss inside a `with` block; see `gradient_cache` and `learning_from`."""

        def set_forward(each: training_step.Forward) -> None:
            if each is not self._forward:
                self._forward = each
                if self.compiled:
                    self.make_train_function(force=True)  # the old function was traced with another

        set_forward(forward)
        try:
            yield
        finally:
            set_forward(training_step.on_labels)

    def compute_loss(
        self,
        x: Inputs | None = None,
        y: Tensor | None = None,
        y_pred: Tensor | None = None,
        sample_weight: Tensor | None = None,
        training: bool = True,
    ) -> Tensor:
        """Computes the loss on the labels, as Keras's method does."""
        return training_step.weighted_sum(self.label_terms(x, y, y_pred, sample_weight))

    def label_terms(
        self, x: Inputs | None, y: Tensor, y_pred: Tensor, sample_weight: Tensor | None
    ) -> list[training_step.LossTerm]:
        """Computes the terms of the loss on the labels. Most losses have one term."""
        mean = super().compute_loss(x, y, y_pred, sample_weight)
        loss = (keras.tree.flatten(self.loss) or [None])[0]
        labels = next((each for each in keras.tree.flatten((y, y_pred)) if each is not None), None)
        return [training_step.LossTerm(mean, training_step.count_averaged(loss, labels, y_pred, sample_weight))]

    def train_step(self, data: tuple[Inputs, ...] | training_step.AccumulatedBatch) -> dict[str, Tensor]:
        """Computes the gradients of a batch and updates the weights. Returns the logs."""
        batch, shares = data if isinstance(data, training_step.AccumulatedBatch) else (data, None)
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
        with tf.GradientTape() as tape:
            terms, y_pred, backward = self._forward(self, tape, x, y, sample_weight)
            loss = self.optimizer.scale_loss(training_step.loss_to_minimize(terms, shares, self.optimizer))
        weights = self.trainable_weights
        gradients = tape.gradient(loss, weights) if backward is None else backward(tape.gradient(loss, y_pred))
        gradients = training_step.gradients_in_units(self.optimizer, gradients, weights)
        undocumented.loss_tracker(self).update_state(terms)
        if gradients:
            # Keras would warn of a pooler without gradients, which is normal if the task does not read it.
            pairs = zip(gradients, weights, strict=True)
            used = [(each, weight) for each, weight in pairs if each is not None or "/pooler/" not in weight.path]
            gradients, weights = zip(*used, strict=True)
            run_update(
                self.optimizer,
                lambda *each: self.optimizer.apply_gradients(zip(each, weights, strict=True)),
                *gradients,
            )
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def test_step(self, data: tuple[Inputs, ...]) -> dict[str, Tensor]:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        y_pred = self(x, training=False)
        terms = training_step.loss_terms(self, x, y, y_pred, sample_weight, training=False)
        undocumented.loss_tracker(self).update_state(terms)
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    @property
    def head_shapes(self) -> dict[str, tuple[int | None, ...]]:
        """The inputs of `serve_head`, with their shapes; none if `serve_packed` alone answers texts."""
        return {}

    def serve_head(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes outputs of `serve_packed` from others, which a caller has changed, such as pooled over windows."""
        raise NotImplementedError

    def serve_packed(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes named outputs from the encoder's inputs, for runtimes without strings. It uses `keras.ops` only.

        Raises:
            ValueError: the task has no outputs for other runtimes.
        """
        raise ValueError(
            f"a {type(self).__name__} has no outputs for other runtimes; export a fine-tuned model instead"
        )


def _arrays(
    model: BertTask, purpose: str, x: Texts | Inputs | None, y: Labels | None = None, sample_weight: Any = None
) -> tuple[Inputs, Targets | None, Any]:
    """Converts examples, labels and weights to arrays. Raises TypeError or ValueError if Keras cannot read them."""
    check_inputs(x)
    inputs, targets = model.arrays(plain(x), model.kind.plain(y))
    count = check_counts(inputs, targets)
    if count == 0:
        raise ValueError(f"there are no examples to {purpose}")
    if targets is None and count is not None and not isinstance(x, dict):
        raise ValueError(f"got {counted(count, 'example')} to {purpose}, but no labels")
    return inputs, targets, as_weights(sample_weight, count)
