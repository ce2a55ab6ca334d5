"""BertTask: the base class of tasks, from strings to logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_bert import files, formats
from keras_bert.encoder import BertEncoder
from keras_bert.encoder.weights import values_by_name
from keras_bert.formats import hugging_face
from keras_bert.tasks import preset
from keras_bert.tasks.by_length import ByLength
from keras_bert.tasks.heads import ClassifierHead
from keras_bert.tasks.replicas import Replicated
from keras_bert.tasks.xla import Compilable
from keras_bert.text import BertPreprocessor, loading
from keras_bert.text.strings import as_strings


class TokenizedExamples(NamedTuple):
    """Training examples, tokenized once.

    Attributes:
        segments: one or two ragged int32 tensors `[examples, (tokens)]`.
        targets: the targets of the loss; the first axis is `examples`.
        lengths: int64 `[examples]`: tokens of each, special ones included, before truncation.
    """

    segments: tuple[tf.RaggedTensor, ...]
    targets: tf.Tensor | tf.RaggedTensor
    lengths: np.ndarray


class BertTask(Replicated, Compilable, keras.Model):
    """An encoder with a preprocessor in front and a head on top. Each task chooses a head and interprets it.

    Args:
        encoder: ids -> hidden states.
        preprocessor: strings -> ids.
        units: the number of logits.
        dropout: the rate before the head; by default the encoder's `hidden_dropout`.

    Call arguments:
        inputs: string `[batch]` (a tensor, or a list of str); for pairs a tuple of two; or packed inputs, the dict that
            the preprocessor makes of these, for example in a `tf.data` pipeline.

    Returns:
        float32: logits. Their shape depends on the task.

    Raises:
        ValueError: vocabulary and embedding table differ in size, or the family has no such head.
    """

    HEAD: ClassVar[str]  # a key of the family's heads
    OF_SEQUENCES: ClassVar[bool] = True  # whether logits are per row, not per token

    def __init__(
        self,
        encoder: BertEncoder,
        preprocessor: BertPreprocessor,
        units: int,
        dropout: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        encoder.config.check_vocabulary(preprocessor.tokenizer.vocabulary_size)
        self.encoder = encoder
        self.preprocessor = preprocessor
        self.dropout_rate = dropout
        self.head = ClassifierHead(
            encoder.config, self.HEAD, units, dropout, dtype=encoder.dtype_policy, name=f"{self.HEAD}_head"
        )
        self.head.build()
        self.built = True
        self._by_length = ByLength(preprocessor, lambda texts: self(preprocessor.pack(texts), training=False))

    def __call__(self, inputs: Any, **kwargs: Any) -> Any:
        # Keras takes only tensors as positional arguments, hence here and not in call.
        return super().__call__(_as_tensors(inputs), **kwargs)

    def packed(self, inputs: Any) -> dict[str, Any]:
        """The encoder's inputs, from strings or packed inputs."""
        return inputs if isinstance(inputs, dict) else self.preprocessor(inputs)

    @property
    def reads_pooler(self) -> bool:
        """Whether logits depend on a pooler: not if they are per token, or if the head has a dense layer instead
        (RoBERTa)."""
        return self.encoder.pooler is not None and self.OF_SEQUENCES and self.head.transform is None

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """Keras's, without an unused pooler: Keras would warn that it has no gradients."""
        unread = [] if self.encoder.pooler is None or self.reads_pooler else self.encoder.pooler.variables
        return [each for each in super().trainable_variables if all(each is not other for other in unread)]

    @property
    def trainable_weights(self) -> list[keras.Variable]:
        return self.trainable_variables

    def retrace(self) -> None:
        """Drops traced graphs. Call it after the layers have changed, and not only their weights."""
        self._by_length.retrace()

    # -- Keras's methods, for lists of str as well

    def fit(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> keras.callbacks.History:
        """Keras's `fit`; `x` may also be a list of str or a tuple of two, and `y` labels for `targets`; or pandas
        columns."""
        _check_dataset(x)
        if kwargs.get("validation_data") is not None and isinstance(kwargs["validation_data"], tuple | list):
            data = kwargs["validation_data"]
            kwargs["validation_data"] = (*self.arrays(*map(plain, data[:2])), *data[2:])
        return super().fit(*self.arrays(plain(x), plain(y)), *args, **kwargs)

    def evaluate(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Keras's `evaluate`; see `fit`."""
        _check_dataset(x)
        return super().evaluate(*self.arrays(plain(x), plain(y)), *args, **kwargs)

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Keras's `predict`, which gives logits; `x` may also be a list of str or a tuple of two."""
        return super().predict(self.arrays(plain(x), None)[0], *args, **kwargs)

    def arrays(self, x: Any, y: Any) -> tuple[Any, Any]:
        """TokenizedExamples and labels as users pass them -> arrays for Keras to batch; arrays stay as they are."""
        return _as_arrays(x), self.targets(y)

    # -- For training: examples tokenized once, batches packed in the graph

    def targets(self, y: Any) -> Any:
        """Labels as users pass them -> targets of a loss; arrays and tensors of numbers stay as they are."""
        return y

    def examples(self, x: Any, y: Any) -> TokenizedExamples:
        """Tokenizes examples for training.

        Args:
            x: a list of str, or a tuple of two.
            y: a label per text, as for `targets`.

        Raises:
            ValueError: `x` and `y` differ in length, or a label is not one of the model's.
        """
        columns = columns_of(x)
        if len({len(column) for column in (*columns, y)}) > 1:
            counts = " and ".join(f"{len(column):,}" for column in columns)
            raise ValueError(f"there are {counts} texts, but {len(y):,} labels")
        segments = tuple(self.preprocessor.tokenizer.tokenize(list(column)) for column in columns)
        return TokenizedExamples(
            segments, tf.convert_to_tensor(self.targets(y)), self._by_length.lengths(list(segments))
        )

    def batch(self, segments: tuple[tf.RaggedTensor, ...], targets: Any) -> tuple[dict[str, tf.Tensor], Any]:
        """Rows of `examples` -> `(x, y)`, as a training step takes them. For `tf.data`."""
        return self.preprocessor.pack(segments), targets

    # -- Files

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments but `encoder` and `preprocessor`, as JSON values."""
        return {"dropout": self.dropout_rate}

    def hugging_face_settings(self) -> dict[str, Any]:
        """Entries for Hugging Face's `config.json`, such as the labels, under its names."""
        return {}

    def save_preset(self, directory: str | Path, overwrite: bool = False) -> None:
        """Writes weights, labels and the tokenizer's files, for `from_preset` and `transformers`.

        Args:
            directory: made if it does not exist; other files in it are left alone.
            overwrite: whether files of the same names may be replaced.

        Raises:
            FileExistsError: such a file exists and `overwrite` is False.
        """
        files.refuse_to_overwrite(Path(directory), (*hugging_face.FILES, *loading.FILES), overwrite)
        preset.write(self, Path(directory), overwrite)

    def save_checkpoint(self, directory: str | Path, format: str, overwrite: bool = False) -> None:
        """Writes a checkpoint for another program, without labels; see `BertEncoder.save_checkpoint`."""
        formats.write(directory, self.encoder.config, self.parts(), format, overwrite)

    def parts(self) -> dict[str, dict[str, np.ndarray]]:
        """The weights of encoder and head, by part and name, as `formats.write` takes them."""
        return {"encoder": values_by_name(self.encoder), self.HEAD: values_by_name(self.head)}

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "preprocessor": keras.saving.serialize_keras_object(self.preprocessor),
            **self.settings(),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        parts = {name: keras.saving.deserialize_keras_object(config[name]) for name in ("encoder", "preprocessor")}
        return cls(**{**config, **parts})


def plain(x: Any) -> Any:
    """A pandas column -> a list, a pandas table -> an array; anything else as it is."""
    if isinstance(x, tuple):
        return tuple(plain(each) for each in x)
    if not hasattr(x, "to_numpy"):
        return x
    return list(x) if len(x.shape) == 1 else x.to_numpy()


def columns_of(x: Any) -> tuple[Any, ...]:
    """The columns of texts in examples: one list, or for pairs the two lists of a tuple.

    Raises:
        ValueError: it is a tuple of something else.
    """
    if not isinstance(x, tuple):
        return (x,)
    if len(x) != 2 or any(isinstance(column, str | bytes) for column in x):
        raise ValueError(f"x is a tuple of {len(x)}; expected a list of texts, or for pairs a tuple of two such lists")
    return x


def _check_dataset(x: Any) -> None:
    """Raises ValueError if the labels in a dataset are names: nothing would turn them into targets."""
    spec = x.element_spec if isinstance(x, tf.data.Dataset) else None
    if isinstance(spec, tuple) and len(spec) > 1 and getattr(spec[1], "dtype", None) == tf.string:
        raise ValueError("the labels in this dataset are strings; make it of numbers, which model.targets(names) gives")


def _as_tensors(inputs: Any) -> Any:
    """Lists of str as string tensors; packed inputs, Keras inputs and tensors as they are."""
    if isinstance(inputs, tuple):
        return tuple(_as_tensors(each) for each in inputs)
    if isinstance(inputs, dict | keras.KerasTensor):
        return inputs
    if isinstance(inputs, str | bytes):
        raise TypeError(f"texts is a single {type(inputs).__name__}; pass a list: [text]")
    return as_strings(inputs)


def _as_arrays(x: Any) -> Any:
    """Texts as arrays, for Keras to batch; anything else as it is."""
    if isinstance(x, tuple) and len(x) == 2:
        return tuple(_as_arrays(each) for each in x)
    is_list = isinstance(x, list) and x and isinstance(x[0], str)
    is_array = isinstance(x, np.ndarray) and x.dtype.kind == "U"
    return np.array(x, dtype=object) if is_list or is_array else x
