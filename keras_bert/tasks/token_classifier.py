"""BertTokenClassifier: a label for each word, and entities in text (Devlin et al. 2018, section 5.3)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.checkpoints import hugging_face
from keras_bert.encoder import BertEncoder
from keras_bert.tasks import preset
from keras_bert.tasks.by_length import BySentence, flat_pieces
from keras_bert.tasks.entities import OUTSIDE, spans
from keras_bert.tasks.labels import checked_labels, number_of
from keras_bert.tasks.long_text import places_of_pieces, sequence_output
from keras_bert.tasks.task import BertTask, Examples
from keras_bert.text import BertPreprocessor
from keras_bert.text.inputs import as_strings
from keras_bert.text.packing import first_pieces
from keras_bert.text.words import find_words

_IGNORED = -1  # the target of what is no first piece of a word


@keras.saving.register_keras_serializable(package="keras_bert")
class BertTokenClassifier(BertTask):
    """Says of each word which label it has: named entities, parts of speech.

    A word's label is that of its first piece, as in the paper; in training the others do not count.

    Args:
        encoder, preprocessor: as for every task. With a preprocessor that gives windows, long texts are read whole:
            each word has its label from the window where it has the most context.
        labels: IOB2 ("O", "B-PER", "I-PER", ...), IOBES, or plain ones such as "NOUN".
        dropout: in front of the head; by default the encoder's `hidden_dropout`.

    Call arguments:
        inputs: as for every task: texts, or packed inputs.

    Returns:
        float32 `[batch, seq_length, labels]`: logits of each piece, of `[CLS]` and `[SEP]` too; with windows
        `[batch, windows, seq_length, labels]`.

    Raises:
        TypeError, ValueError: a bad argument.

    Example:
        >>> model = BertTokenClassifier.from_preset("all-MiniLM-L6-v2", labels=["O", "B-PER", "I-PER"])
        >>> [[answer["word"] for answer in sentence] for sentence in model.tag([["Ada", "Lovelace", "wrote"]])]
        [['Ada', 'Lovelace', 'wrote']]
        >>> all("Ada wrote."[each["start"] : each["end"]] == each["text"] for each in model.entities(["Ada wrote."])[0])
        True
    """

    HEAD = "tokens"
    OF_SEQUENCES = False

    def __init__(
        self,
        encoder: BertEncoder,
        preprocessor: BertPreprocessor,
        labels: Sequence[str],
        dropout: float | None = None,
        **kwargs: Any,
    ) -> None:
        labels = checked_labels(labels, least=2)
        if preprocessor.truncation == "head_tail":
            raise ValueError(
                "truncation (long_text) is head_tail, which cuts words out of the middle, and these would have no "
                "labels; use long_text='windows', which cuts nothing, or 'truncate'"
            )
        super().__init__(encoder, preprocessor, len(labels), dropout, **kwargs)
        self.labels = labels
        self._by_length = BySentence(preprocessor, lambda segments: self._probabilities(*segments))

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        hidden = sequence_output(self.encoder, self.packed(inputs), training)
        return ops.cast(self.head(hidden, training=training), "float32")

    def tag(
        self, sentences: Iterable[Sequence[str]], batch_tokens: int = 1024, progress: bool | None = None
    ) -> list[list[dict[str, Any]]]:
        """The label of each word.

        Args:
            sentences: each a list of words.
            batch_tokens: how many pieces to compute at a time, padding included.
            progress: whether to show a progress bar; by default on a terminal, if it takes longer than a second.

        Returns:
            For each sentence a list, for each of its words a dict: `word`, `label`, and `probability`, 0 to 1. Both are
            None for a word that was cut off, which only happens without windows.

        Raises:
            TypeError, ValueError: a sentence is not a list of str.

        Warns:
            UserWarning: how many words were cut off.
        """
        sentences = _checked(sentences)
        results = [row for chunk in self._by_length(sentences, batch_tokens, progress) for row in chunk]
        answers = [self._answers(words, rows) for words, rows in zip(sentences, results, strict=True)]
        if cut := sum(answer["label"] is None for sentence in answers for answer in sentence):
            message = f"words cut off, which have no label: {cut:,}; with long_text='windows' all words have one"
            warnings.warn(message, stacklevel=2)
        return answers

    def entities(
        self, texts: Iterable[str], batch_tokens: int = 1024, progress: bool | None = None
    ) -> list[list[dict[str, Any]]]:
        """The entities in texts, with their places.

        Words are what `text.words.find_words` finds, entities what `tasks.entities.find_entities` makes of their
        labels. If the labels have no prefixes, a run of words with the same one is an entity where there is also "O";
        where there is not, as for parts of speech, each word is one.

        Args:
            texts: each a str.
            batch_tokens, progress: as for `tag`.

        Returns:
            For each text a list of dicts in the order of the text: `label`, without prefix; `start` and `end`, the
            place in characters; `text`, which is `text[start:end]`; `probability`, 0 to 1, the mean over its words.

        Raises:
            TypeError, ValueError: `texts` is a single str, or something in it is not a str.

        Warns:
            As `tag`.
        """
        if isinstance(texts, str | bytes):
            raise TypeError(f"texts is a single {type(texts).__name__}; pass a list: [text]")
        texts = list(texts)
        _, starts, ends = find_words(as_strings(texts))
        places = [list(zip(*rows, strict=True)) for rows in zip(starts.to_list(), ends.to_list(), strict=True)]
        words = [[text[start:end] for start, end in row] for text, row in zip(texts, places, strict=True)]
        tagged = self.tag(words, batch_tokens, progress)
        runs = OUTSIDE in self.labels
        return [spans(*each, runs) for each in zip(texts, places, tagged, strict=True)]

    def _answers(self, words: Sequence[str], probabilities: np.ndarray) -> list[dict[str, Any]]:
        """float `[words or more, labels]`, all 0 for a word that was cut off."""
        best = probabilities.argmax(axis=-1)
        answers = []
        for word, row, i in zip(words, probabilities, best, strict=False):
            seen = row[i] != 0
            label, probability = (self.labels[i], float(row[i])) if seen else (None, None)
            answers.append({"word": word, "label": label, "probability": probability})
        return answers

    def _probabilities(self, pieces: tf.RaggedTensor, begins: tf.RaggedTensor) -> tf.Tensor:
        """Of the labels of each word: float32 `[batch, words, labels]`, all 0 where a word was cut off, or is none.

        Args:
            pieces: int32 `[batch, (pieces)]`.
            begins: of the same shape, 1 where a word begins, else 0.
        """
        packed = self.preprocessor.pack(pieces)
        logits = self(packed, training=False)  # [batch, seq_length, labels], or with windows
        places = places_of_pieces(self.preprocessor, pieces, packed["input_word_ids"])
        probabilities = ops.softmax(tf.boolean_mask(logits, places))  # [pieces that are not cut, labels]
        kept = _pieces_kept(places)
        is_first = first_pieces(begins, kept) > 0  # [batch, (pieces that are not cut)]
        words = tf.ragged.boolean_mask(tf.RaggedTensor.from_row_lengths(probabilities, kept), is_first)
        most = tf.reduce_max(tf.concat([[0], tf.reduce_sum(begins, axis=1)], 0))
        return words.to_tensor(shape=tf.stack([-1, most, len(self.labels)]))

    def serve(self, text: Any) -> dict[str, Any]:
        """What a server answers to `text`, string `[batch]`: what each of its words is.

        Returns:
            `words`, string `[batch, words]`, "" where a text has fewer than another; `starts` and `ends`, int32, their
            places in characters (code points, as Python counts), -1 there; `labels`, string, with prefixes, and
            `probabilities`, float32: "" and 0 there, and for a word that was cut off.
        """
        words, starts, ends = find_words(text)
        pieces = self.preprocessor.tokenizer.tokenize_words(words)
        probabilities = self._probabilities(*flat_pieces(pieces))  # [batch, words, labels]
        probability = tf.reduce_max(probabilities, axis=-1)
        labels = tf.gather(tf.constant(self.labels), tf.argmax(probabilities, axis=-1))
        return {
            "words": words.to_tensor(""),
            "labels": tf.where(probability != 0, labels, ""),
            "probabilities": probability,
            "starts": starts.to_tensor(-1),
            "ends": ends.to_tensor(-1),
        }

    def training_loss(self) -> keras.losses.Loss:
        """Cross-entropy, its mean over the words of a batch: what to compile with."""
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=_IGNORED)

    def examples(self, x: Any, y: Any) -> Examples:
        """Tokenizes sentences whose words have labels.

        Args:
            x: a list of lists of words.
            y: a list of as many lists of as many labels, by name or by number.

        Returns:
            `targets`: ragged int32 `[sentences, (pieces)]`: the label at the first piece of a word, else -1.

        Raises:
            TypeError, ValueError: a sentence is not a list of str, words and labels are not as many, or a label is not
                one of the model's. The message has the sentence's number, counted from 0.
        """
        x = _checked(x)
        if len(x) != len(y):
            raise ValueError(f"there are {len(x):,} sentences, but labels of {len(y):,}")
        numbers = [self._numbers(*each) for each in zip(range(len(x)), x, y, strict=True)]
        pieces, begins = self._by_length.tokenized(x)
        labels = tf.constant([number for row in numbers for number in row], tf.int32)  # [words]
        targets = tf.fill(tf.shape(begins.values), _IGNORED)
        targets = tf.tensor_scatter_nd_update(targets, tf.where(begins.values > 0), labels)
        return Examples((pieces,), begins.with_values(targets), self._by_length.lengths([pieces]))

    def _numbers(self, sentence: int, words: Sequence[str], labels: Sequence[Any]) -> list[int]:
        if len(words) != len(labels):
            raise ValueError(f"sentence {sentence} (from 0) has {len(words)} words, but {len(labels)} labels")
        try:
            return [number_of(label, self.labels) for label in labels]
        except ValueError as error:
            raise ValueError(f"sentence {sentence} (from 0): {error}") from None

    def batch(self, segments: tuple[tf.RaggedTensor, ...], targets: Any) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Rows of `examples` -> `(x, y)`; `y` is int32 of the shape of the packed rows, -1 where nothing counts.

        What is in several windows counts in the one where it has the most context.
        """
        packed = self.preprocessor.pack(segments)
        places = places_of_pieces(self.preprocessor, segments[0], packed["input_word_ids"])
        values = first_pieces(targets, _pieces_kept(places)).values
        none = tf.fill(tf.shape(places), _IGNORED)
        return packed, tf.tensor_scatter_nd_update(none, tf.where(places), values)

    def arrays(self, x: Any, y: Any) -> tuple[Any, Any]:
        if not (isinstance(x, list) and x and isinstance(x[0], list | tuple)):
            return super().arrays(x, y)
        if y is None:
            return self.preprocessor.pack(self._by_length.tokenized(_checked(x))[0]), None
        examples = self.examples(x, y)
        return self.batch(examples.segments, examples.targets)

    @classmethod
    def from_preset(
        cls, handle: str | Path, labels: Sequence[str] | None = None, dropout: float | None = None, **kwargs: Any
    ) -> BertTokenClassifier:
        """A token classifier on the encoder of a preset, with the preset's head if it has one for these labels.

        Args:
            handle: a directory, a preset's name, or `hf://org/name`; see `presets.resolve`.
            labels: by default those of the preset's head; if that has no names for them, theirs, in the order of the
                logits. With others, a new head is drawn at random, to be trained.
            dropout: as for the constructor; by default as the preset was saved.
            **kwargs: `sequence_length`, `long_text` ("truncate" or "windows"), `stride`, `dtype`: see `preset.read`.

        Raises:
            FileNotFoundError: there is no such preset, or it lacks a file.
            ValueError: a file is damaged, an argument is bad, or there are no labels.

        Warns:
            UserWarning: the preset's head has as many labels, but others, and so is not used.
        """
        found = preset.read(handle, cls.HEAD, **kwargs)
        labels = found.labels(labels)
        settings = {**found.settings, **({} if dropout is None else {"dropout": dropout})}
        model = cls(found.encoder, found.preprocessor, labels, **settings)
        if found.head_fits(labels):
            preset.load_head(model, found)
        return model

    def hugging_face_settings(self) -> dict[str, Any]:
        return hugging_face.label_names(self.labels)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "labels": self.labels}


def _checked(sentences: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    sentences = [sentences] if isinstance(sentences, str | bytes) else list(sentences)
    for number, words in enumerate(sentences):
        if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
            raise TypeError(f"sentence {number} (from 0) is {words!r:.60}; expected a list of words, each a str")
    return sentences


def _pieces_kept(places: tf.Tensor) -> tf.Tensor:
    """int64 `[batch]`: how many pieces of each row were not cut off."""
    return tf.math.count_nonzero(places, axis=list(range(1, len(places.shape))))
