"""BertPretrainer: the encoder with the heads of both pre-training objectives (Devlin et al. 2018, section 3.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
from keras import ops

from keras_bert import files, formats, presets
from keras_bert.encoder import BertEncoder
from keras_bert.encoder.weights import load_weights, values_by_name
from keras_bert.formats import hugging_face
from keras_bert.tasks.heads import ClassifierHead
from keras_bert.tasks.masked_lm import POSITIONS, BertMaskedLM
from keras_bert.tasks.replicas import Replicated
from keras_bert.tasks.xla import Compilable
from keras_bert.text import BertPreprocessor, loading

# The outputs' names, and the keys of losses and metrics.
MASKED_LM, NEXT_SENTENCE = "masked_lm", "next_sentence"
SEQUENCE_OUTPUT = "sequence_output"  # only the loss of a student reads it


@keras.saving.register_keras_serializable(package="keras_bert")
class BertPretrainer(Replicated, Compilable, keras.Model):
    """An encoder with a masked language model head and, for pairs, a head that says whether the second segment follows.

    Only the masked positions are projected to the vocabulary. The second head learns next sentence prediction or
    sentence order, depending on the examples.

    Args:
        encoder: a `BertEncoder`. With a pooler, if `pairs`.
        preprocessor: its tokenizer is saved with the model.
        pairs: whether there is a second head. RoBERTa's family has none.

    Call arguments:
        inputs: a dict as for the encoder, and with `masked_lm_positions`, int `[batch, predictions]`.

    Returns:
        A dict:
            `masked_lm`: float32 `[batch, predictions, vocab_size]`, logits of the tokens;
            `next_sentence`, if `pairs`: float32 `[batch, 2]`, logits of "it follows" and "it does not";
            `sequence_output`: float32 `[batch, seq_length, hidden]`, the encoder's last hidden states.

    Raises:
        ValueError: as the encoder does, or the vocabulary is not the encoder's, or the family has no such head.

    Example:
        >>> import numpy as np
        >>> from keras_bert import BertConfig
        >>> preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=8)
        >>> model = BertPretrainer(BertEncoder(BertConfig.tiny()), preprocessor)
        >>> packed = preprocessor((["I [MASK] a cat"], ["it is black"]))
        >>> outputs = model({**packed, "masked_lm_positions": np.array([[2]])})
        >>> tuple(outputs["masked_lm"].shape), tuple(outputs["next_sentence"].shape)
        ((1, 1, 30522), (1, 2))
    """

    def __init__(self, encoder: BertEncoder, preprocessor: BertPreprocessor, pairs: bool = True, **kwargs: Any) -> None:
        encoder.config.check_vocabulary(preprocessor.tokenizer.vocabulary_size)
        super().__init__(**kwargs)
        self.encoder = encoder
        self.preprocessor = preprocessor
        self.pairs = pairs
        self.masked_lm = BertMaskedLM(encoder, dtype=encoder.dtype_policy, name=MASKED_LM)
        self.next_sentence = None
        if pairs:
            self.next_sentence = ClassifierHead(
                encoder.config, NEXT_SENTENCE, 2, dropout_rate=0.0, dtype=encoder.dtype_policy, name=NEXT_SENTENCE
            )
            self.next_sentence.build()
        self.built = True

    def call(self, inputs: dict[str, Any], training: bool | None = None) -> dict[str, Any]:
        packed = {name: value for name, value in inputs.items() if name != POSITIONS}
        outputs = self.encoder(packed, training=training)
        hidden = outputs["sequence_output"]
        found = {MASKED_LM: self.masked_lm.logits(hidden, inputs[POSITIONS]), SEQUENCE_OUTPUT: hidden}
        if self.next_sentence is not None:
            found[NEXT_SENTENCE] = self.next_sentence(outputs["pooled_output"], training=training)
        return {name: ops.cast(value, "float32") for name, value in found.items()}

    # Keras wants a loss and targets for every output, so it gets only the outputs that have them.

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        return super().compute_loss(x, y, self._logits(y_pred), sample_weight, training)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        return super().compute_metrics(x, y, self._logits(y_pred), sample_weight)

    def _logits(self, outputs: dict[str, Any]) -> dict[str, Any]:
        return {name: outputs[name] for name in self._objectives}

    def training_loss(self) -> dict[str, keras.losses.Loss]:
        """`L_MLM + L_NSP`: the mean cross-entropies over the predictions of a batch and over its pairs."""
        return {
            name: keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
            for name in self._objectives
        }

    def training_metrics(self) -> dict[str, list[keras.metrics.Metric]]:
        """The share of right answers. The perplexity is `exp` of the loss `masked_lm_loss`."""
        return {name: [keras.metrics.SparseCategoricalAccuracy(name="accuracy")] for name in self._objectives}

    @property
    def _objectives(self) -> tuple[str, ...]:
        return (MASKED_LM, NEXT_SENTENCE) if self.pairs else (MASKED_LM,)

    @classmethod
    def from_preset(cls, handle: str | Path, sequence_length: int = 128, **kwargs: Any) -> BertPretrainer:
        """The encoder of a preset with its heads, for further training. Missing heads are initialized at random.

        Args:
            handle: a directory, a preset's name, or `hf://org/name`; see `presets.resolve`.
            sequence_length: the length of every row.
            **kwargs: `pairs`, `name`.

        Raises:
            FileNotFoundError: there is no such preset, or it lacks a file.
            ValueError: a file is damaged.
        """
        directory = presets.resolve(handle)
        encoder = BertEncoder.from_preset(directory)
        model = cls(encoder, BertPreprocessor.from_preset(directory, sequence_length=sequence_length), **kwargs)
        with formats.open_checkpoint(directory) as checkpoint:
            for name, head in model._heads().items():
                if name in checkpoint.heads:
                    load_weights(head, checkpoint, name)
        return model

    def save_preset(self, directory: str | Path, overwrite: bool = False) -> None:
        """Writes `config.json`, `model.safetensors` and the tokenizer's files.

        `BertMaskedLM`, `BertNextSentence`, every other task, and `transformers` (`BertForPreTraining`) read them.

        Raises:
            FileExistsError: such a file exists and `overwrite` is False.
        """
        files.refuse_to_overwrite(directory, (*hugging_face.FILES, *loading.FILES), overwrite)
        heads = {name: values_by_name(head) for name, head in self._heads().items()}
        parts = {"encoder": values_by_name(self.encoder), **heads}
        formats.write(directory, self.encoder.config, parts, "hugging_face", overwrite)
        self.preprocessor.save_preset(directory, overwrite)

    def _heads(self) -> dict[str, keras.Layer]:
        heads = {MASKED_LM: self.masked_lm.head, NEXT_SENTENCE: self.next_sentence}
        return {name: heads[name] for name in self._objectives}

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "preprocessor": keras.saving.serialize_keras_object(self.preprocessor),
            "pairs": self.pairs,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> BertPretrainer:
        parts = {name: keras.saving.deserialize_keras_object(config[name]) for name in ("encoder", "preprocessor")}
        return cls(**{**config, **parts})
