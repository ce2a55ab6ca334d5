"""BertTask: what the tasks have in common, from strings to logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_bert import checkpoints, files
from keras_bert.checkpoints import hugging_face
from keras_bert.encoder import BertEncoder
from keras_bert.encoder.weights import values_by_name
from keras_bert.tasks import preset
from keras_bert.tasks.by_length import ByLength
from keras_bert.tasks.heads import ClassifierHead
from keras_bert.tasks.replicas import Replicated
from keras_bert.tasks.xla import Compilable
from keras_bert.text import BertPreprocessor, loading
from keras_bert.text.inputs import as_strings


class Examples(NamedTuple):
    """Examples to train on, tokenized once.

    Attributes:
        segments: one or two ragged int32 tensors `[examples, (pieces)]`.
        targets: what a loss compares logits with: a tensor whose first axis is `examples`.
        lengths: int64 `[examples]`: pieces of each, with special tokens, before anything is cut.
    """

    segments: tuple[tf.RaggedTensor, ...]
    targets: tf.Tensor | tf.RaggedTensor
    lengths: np.ndarray


class BertTask(Replicated, Compilable, keras.Model):
    """An encoder with a preprocessor in front and a head on top. A task says what the head is, and what it means.

    Args:
        encoder: ids -> hidden states.
        preprocessor: strings -> ids.
        units: how many logits the head gives.
        dropout: in front of the head; by default the encoder's `hidden_dropout`.

    Call arguments:
        inputs: string `[batch]` (a tensor, or a list of str); for pairs a tuple of two; or what the preprocessor makes
            of these, a dict, which is what a `tf.data` pipeline with the preprocessor in it gives.

    Returns:
        float32: logits, of a shape that the task says.

    Raises:
        ValueError: the vocabulary is not of the size of the encoder's table, or the family has no such head.
    """

    HEAD: ClassVar[str]  # a key of the family's heads
    OF_SEQUENCES: ClassVar[bool] = True  # whether logits are of a row as a whole, and not of each piece

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
        """What the encoder reads, of strings or of what is that already."""
        return inputs if isinstance(inputs, dict) else self.preprocessor(inputs)

    @property
    def reads_pooler(self) -> bool:
        """Whether there is a pooler that logits depend on: not where they are of pieces, or where the head has a dense
        layer in its place (RoBERTa)."""
        return self.encoder.pooler is not None and self.OF_SEQUENCES and self.head.transform is None

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """Keras's, without a pooler that is not read: it has no gradients, of which Keras would warn."""
        unread = [] if self.encoder.pooler is None or self.reads_pooler else self.encoder.pooler.variables
        return [each for each in super().trainable_variables if all(each is not other for other in unread)]

    @property
    def trainable_weights(self) -> list[keras.Variable]:
        return self.trainable_variables

    def retrace(self) -> None:
        """Forgets what was traced of the model's layers: for when these, and not only their weights, have changed."""
        self._by_length.retrace()

    # -- Keras's own, for lists of str as well

    def fit(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> keras.callbacks.History:
        """Keras's `fit`; `x` may also be a list of str or a tuple of two, and `y` what `targets` takes; or columns
        of pandas."""
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
        """What people write as examples and labels -> what Keras makes batches of; what is that already stays."""
        return _as_arrays(x), self.targets(y)

    # -- For training: examples tokenized once, batches packed in the graph

    def targets(self, y: Any) -> Any:
        """What people write as labels -> what a loss takes; arrays and tensors of numbers stay as they are."""
        return y

    def examples(self, x: Any, y: Any) -> Examples:
        """Tokenizes what there is to train on.

        Args:
            x: a list of str, or a tuple of two.
            y: as many labels, as `targets` takes them.

        Raises:
            ValueError: `x` and `y` are not as many, or a label is not one of the model's.
        """
        columns = columns_of(x)
        if len({len(column) for column in (*columns, y)}) > 1:
            counts = " and ".join(f"{len(column):,}" for column in columns)
            raise ValueError(f"there are {counts} texts, but {len(y):,} labels")
        segments = tuple(self.preprocessor.tokenizer.tokenize(list(column)) for column in columns)
        return Examples(segments, tf.convert_to_tensor(self.targets(y)), self._by_length.lengths(list(segments)))

    def batch(self, segments: tuple[tf.RaggedTensor, ...], targets: Any) -> tuple[dict[str, tf.Tensor], Any]:
        """Rows of `examples` -> `(x, y)`, as a training step takes them. For `tf.data`."""
        return self.preprocessor.pack(segments), targets

    # -- Files

    def settings(self) -> dict[str, Any]:
        """Arguments of the constructor beside `encoder` and `preprocessor`, as JSON has them."""
        return {"dropout": self.dropout_rate}

    def hugging_face_settings(self) -> dict[str, Any]:
        """What Hugging Face's `config.json` says of such a model: labels and the like, under its names."""
        return {}

    def save_preset(self, directory: str | Path, overwrite: bool = False) -> None:
        """Writes weights, labels and the tokenizer's files, which `from_preset` and `transformers` read.

        Args:
            directory: made if it does not exist; other files in it are left alone.
            overwrite: whether files of the same names may be replaced.

        Raises:
            FileExistsError: such a file exists and `overwrite` is False.
        """
        files.refuse_to_overwrite(Path(directory), (*hugging_face.FILES, *loading.FILES), overwrite)
        preset.write(self, Path(directory), overwrite)

    def save_checkpoint(self, directory: str | Path, format: str, overwrite: bool = False) -> None:
        """Writes encoder and head for another program, without labels; see `BertEncoder.save_checkpoint`."""
        checkpoints.write(directory, self.encoder.config, self.parts(), format, overwrite)

    def parts(self) -> dict[str, dict[str, np.ndarray]]:
        """The weights of encoder and head, by part and name, as `checkpoints.write` takes them."""
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
    """What pandas has as a column -> a list, as a table -> an array; anything else as it is."""
    if isinstance(x, tuple):
        return tuple(plain(each) for each in x)
    if not hasattr(x, "to_numpy"):
        return x
    return list(x) if len(x.shape) == 1 else x.to_numpy()


def columns_of(x: Any) -> tuple[Any, ...]:
    """The texts, or the first ones and the second ones, of examples: a list, or for pairs a tuple of two lists.

    Raises:
        ValueError: it is a tuple of something else.
    """
    if not isinstance(x, tuple):
        return (x,)
    if len(x) != 2 or any(isinstance(column, str | bytes) for column in x):
        raise ValueError(f"x is a tuple of {len(x)}; expected a list of texts, or for pairs a tuple of two such lists")
    return x


def _check_dataset(x: Any) -> None:
    """Raises ValueError where the labels in a dataset are names: nothing in it turns them into what a loss takes."""
    spec = x.element_spec if isinstance(x, tf.data.Dataset) else None
    if isinstance(spec, tuple) and len(spec) > 1 and getattr(spec[1], "dtype", None) == tf.string:
        raise ValueError("the labels in this dataset are strings; make it of numbers, which model.targets(names) gives")


def _as_tensors(inputs: Any) -> Any:
    """Lists of str as string tensors; dicts of what is packed already, Keras inputs and tensors as they are."""
    if isinstance(inputs, tuple):
        return tuple(_as_tensors(each) for each in inputs)
    if isinstance(inputs, dict | keras.KerasTensor):
        return inputs
    if isinstance(inputs, str | bytes):
        raise TypeError(f"texts is a single {type(inputs).__name__}; pass a list: [text]")
    return as_strings(inputs)


def _as_arrays(x: Any) -> Any:
    """Texts as arrays, of which Keras makes batches; anything else as it is."""
    if isinstance(x, tuple) and len(x) == 2:
        return tuple(_as_arrays(each) for each in x)
    is_list = isinstance(x, list) and x and isinstance(x[0], str)
    is_array = isinstance(x, np.ndarray) and x.dtype.kind == "U"
    return np.array(x, dtype=object) if is_list or is_array else x
