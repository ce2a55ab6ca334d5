"""CRF: labels that depend on their neighbours (Lafferty et al. 2001; Lample et al. 2016, section 2).

The layer works in any Keras model, on any backend. It does not need this package's encoder, nor TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import keras
import numpy as np
from keras import ops

from keras_bert import undocumented
from keras_bert.answers.entities import allowed_transitions
from keras_bert.counted import counted
from keras_bert.engines.paths import FORBIDDEN, LARGEST

_RETURNS = ("emissions", "labels", "probabilities")
# Name -> the latest layer of this name. A loss read from a file finds its layer here: Keras reads the layers first.
_LAYERS: WeakValueDictionary[str, CRF] = WeakValueDictionary()


@keras.saving.register_keras_serializable(package="keras_bert")
class CRF(keras.layers.Layer):
    """A linear-chain conditional random field: the last layer of a model that labels each word of a sentence.

    Use it where a label depends on its neighbours, as in entity recognition: it scores all labels of a sentence
    together. The score of labels `y` is the sum of the words' emissions and of learned transition scores:
    `s(y) = start[y_1] + sum_t emissions[t, y_t] + sum_t transitions[y_(t-1), y_t] + end[y_n]`, and
    `log p(y) = s(y) - log sum_y' exp(s(y'))`. A call returns the emissions, with their mask, for `loss`. `decode` and
    `marginals` share the layer's weights; a functional model can use them as layers.

    Masked positions may be anywhere. The layer skips them: a transition leads from the last word before one to the
    first word after it. All sums are in float32, or in float64 if that is the layer's type.

    Args:
        num_labels: the number of labels.
        scheme: the scheme of labels for entities: "BIO", "BIOES", "BILOU", "BMES", "IOB1" or "IOE"; see
            `answers.entities.allowed_transitions`. A transition that it forbids, such as from O to I-PER, has
            probability 0, and no decoded path contains it.
        labels: the names of the labels in the order of the emissions. Pass them with a scheme, and only then.

    Call arguments:
        emissions: float `[batch, length, num_labels]`: unnormalized scores, such as the logits of a dense layer.
        mask: bool or int `[batch, length]`, keyword only: True where there is a word. By default the mask that Keras
            carries from `Embedding(mask_zero=True)` or `Masking`; without one, all positions are words.
        returns: "emissions"; "labels", the result of `decode`; or "probabilities", the result of `marginals`.

    Returns:
        float32 `[batch, length, num_labels]`: the emissions.

    Raises:
        ValueError: `num_labels`, `scheme`, `labels` or `returns` is invalid, `labels` has another length, or the last
            axis of the emissions is not `num_labels`.

    Example:
        >>> words = keras.Input([None], dtype="int32")
        >>> crf = CRF(3)
        >>> emissions = crf(keras.layers.Dense(3)(keras.layers.Embedding(9, 8, mask_zero=True)(words)))
        >>> model = keras.Model(words, emissions)
        >>> model.compile("adam", loss=crf.loss)
        >>> history = model.fit(ops.array([[3, 4, 0], [5, 6, 7]]), ops.array([[1, 2, 0], [0, 1, 2]]), verbose=0)
        >>> tagger = keras.Model(words, crf.decode(emissions))
        >>> tagger.predict(ops.array([[3, 4, 0]]), verbose=0)[0, 2]
        np.int32(-1)
    """

    def __init__(
        self, num_labels: int, scheme: str | None = None, labels: Sequence[str] | None = None, **kwargs: Any
    ) -> None:
        if not isinstance(num_labels, int) or num_labels < 1:
            raise ValueError(f"num_labels is {num_labels!r:.60}; expected an int, 1 or more")
        if (scheme is None) != (labels is None):
            raise ValueError(f"scheme is {scheme!r}, and labels are {labels!r:.60}; give both or neither")
        if labels is not None and len(labels) != num_labels:
            raise ValueError(f"got {counted(labels, 'label')}, but num_labels is {num_labels}")
        super().__init__(**{"autocast": False, **kwargs})
        _LAYERS[self.name] = self
        self.num_labels, self.scheme = num_labels, scheme
        self.labels = None if labels is None else tuple(labels)
        self.supports_masking = True
        self.allowed = None if scheme is None or labels is None else allowed_transitions(tuple(labels), scheme)

    def build(self, input_shape: Any = None) -> None:
        if input_shape is not None and input_shape[-1] != self.num_labels:
            raise ValueError(f"emissions are of {input_shape[-1]} labels, but num_labels is {self.num_labels}")
        num_labels, options = self.num_labels, {"initializer": "zeros", "dtype": self._sum_dtype, "autocast": False}
        self.start = self.add_weight(shape=(num_labels,), name="start", **options)
        self.transitions = self.add_weight(shape=(num_labels, num_labels), name="transitions", **options)
        self.end = self.add_weight(shape=(num_labels,), name="end", **options)

    @property
    def _sum_dtype(self) -> str:
        """The dtype of all sums."""
        return keras.backend.result_type(self.compute_dtype, "float32")

    def call(self, emissions: Any, *, mask: Any = None, returns: str = "emissions") -> Any:
        emissions = ops.cast(emissions, self._sum_dtype)
        if returns == "emissions":
            return emissions
        words = _Words(emissions, mask)
        chain = _Chain(_bounded(words.emissions), words.is_word, *self._scores())
        if returns == "labels":
            comparable = ops.where(ops.isnan(chain.emissions), -LARGEST, chain.emissions)
            return words.scatter(_best_path(chain._replace(emissions=comparable)), -1)
        marginals = ops.softmax(_forward(chain)[0] + _backward(chain), axis=-1)  # [length, batch, labels]
        return words.scatter(marginals, 0)

    def compute_output_spec(self, emissions: Any, *, mask: Any = None, returns: str = "emissions") -> keras.KerasTensor:
        if returns not in _RETURNS:
            raise ValueError(f"returns is {returns!r:.60}; expected {', '.join(_RETURNS)}")
        if returns == "labels":
            return keras.KerasTensor(emissions.shape[:-1], "int32")
        return keras.KerasTensor(emissions.shape, self._sum_dtype)

    def decode(self, emissions: Any, mask: Any = None) -> Any:
        """Finds the most probable labels of each sentence as a whole, the best path (Viterbi 1967).

        Args:
            emissions, mask: as for a call, or Keras's symbolic tensors in a functional model. A label whose emission is
                -inf or NaN is chosen only if the scheme forbids all others.

        Returns:
            int32 `[batch, length]`; -1 at masked positions.

        Example:
            >>> CRF(2).decode(ops.array([[[1.0, 0.0], [0.0, 3.0], [9.0, 0.0]]]), mask=ops.array([[1, 1, 0]])).numpy()
            array([[ 0,  1, -1]], dtype=int32)
        """
        return self(emissions, mask=mask, returns="labels")

    def marginals(self, emissions: Any, mask: Any = None) -> Any:
        """Computes the probability of each label of each word, by the forward-backward algorithm (Rabiner 1989).

        Use it for confidences; the most probable label of each word alone may break the scheme, unlike `decode`.

        Args:
            emissions, mask: as for `decode`.

        Returns:
            float32 `[batch, length, num_labels]`: the sum over labels is 1 for each word, and 0 at masked positions.
        """
        return self(emissions, mask=mask, returns="probabilities")

    def log_likelihood(self, emissions: Any, labels: Any, mask: Any = None) -> Any:
        """Computes `log p(y)`, the logarithm of the probability of labels.

        Args:
            emissions: float `[batch, length, num_labels]`.
            labels: int `[batch, length]`. A position whose label is negative is masked.
            mask: as for a call; by default all positions are words.

        Returns:
            float32 `[batch]`; 0 for a sentence without words, -inf if the emission of one of the labels is. If the
            labels contain a transition that the scheme forbids, the value is computed without the scheme: it stays
            finite, and training can use it.

        Example:
            >>> CRF(2).log_likelihood(ops.zeros([1, 3, 2]), ops.array([[0, 1, -1]])).numpy()  # one path of four
            array([-1.3862944], dtype=float32)
        """
        emissions, labels = ops.cast(emissions, self._sum_dtype), ops.cast(labels, "int32")
        if not self.built:
            self.build(emissions.shape)
        is_labelled = labels >= 0
        words = _Words(emissions, is_labelled if mask is None else ops.logical_and(is_labelled, ops.cast(mask, "bool")))
        labels = ops.transpose(words.gather(ops.maximum(labels, 0)))  # [length, batch]
        chain = _Chain(words.emissions, words.is_word, *self._weights())
        score = _score(chain, labels)
        if self.allowed is not None:
            # With scores of 1 for what is forbidden and 0 for all else, `s(y)` is the number of forbidden transitions.
            forbidden = (ops.cast(~each, self._sum_dtype) for each in self.allowed)
            is_broken = _score(_Chain(ops.zeros_like(words.emissions), words.is_word, *forbidden), labels) > 0
            chain = _Chain(words.emissions, words.is_word, *self._scores(is_broken))
        return score - _log_partition(chain._replace(emissions=_bounded(chain.emissions)))

    @property
    def loss(self) -> CRFLoss:
        """The loss for `compile`, if the model's output is a call of this layer."""
        return CRFLoss(self)

    def start_from(self, sentences: Iterable[Sequence[int] | np.ndarray]) -> None:
        """Initializes the scores of starts, transitions and ends from labelled sentences, if all scores are 0.

        Use it before training at low learning rates: at those of fine-tuning a BERT, scores that start at 0 stay close
        to 0. A transition's score is `log p(after | before) - log p(after)`. With emissions `log p(label | word)`, the
        model is then a hidden Markov model, so let emissions start from `log p(label)`. One is added to the count of
        each label; and to those of the labels after another one, one in all, shared as `p(after)`.

        Args:
            sentences: for each sentence, the indices of its labels, without masked positions.
        """
        if not self.built:
            self.build()
        num_labels = self.num_labels
        start, pairs, end = np.zeros(num_labels), np.zeros((num_labels, num_labels)), np.zeros(num_labels)
        label_counts = np.ones(num_labels)
        for labels in map(np.asarray, sentences):
            if labels.size:
                start[labels[0]] += 1
                end[labels[-1]] += 1
                np.add.at(pairs, (labels[:-1], labels[1:]), 1)
                np.add.at(label_counts, labels, 1)
        frequencies = label_counts / label_counts.sum()
        if not any(np.any(each) for each in self.get_weights()):
            smoothed = [(counts + frequencies) / (counts.sum(-1, keepdims=True) + 1) for counts in (start, pairs, end)]
            self.set_weights([np.log(each / frequencies) for each in smoothed])

    def _weights(self) -> list[Any]:
        return [ops.convert_to_tensor(each) for each in (self.start, self.transitions, self.end)]

    def _scores(self, exempt: Any = False) -> list[Any]:
        """Computes the weights, with `FORBIDDEN` for what is forbidden, save in rows `exempt`, bool `[batch]`."""
        if self.allowed is None:
            return self._weights()
        scores = []
        for is_allowed, score in zip(self.allowed, self._weights(), strict=True):
            is_exempt = exempt if exempt is False else ops.reshape(exempt, (-1, *(1,) * is_allowed.ndim))
            scores.append(ops.where(ops.logical_or(is_allowed, is_exempt), score, FORBIDDEN))
        return scores

    def get_config(self) -> dict[str, Any]:
        labels = None if self.labels is None else list(self.labels)
        return {**super().get_config(), "num_labels": self.num_labels, "scheme": self.scheme, "labels": labels}


@keras.saving.register_keras_serializable(package="keras_bert")
class CRFLoss(keras.losses.Loss):
    """The loss of a model that ends in a CRF: the sum of `-log p(y)` over a batch, divided by the number of its words.

    Args:
        crf: the layer. Its output is `y_pred`, with the mask that Keras carries.
        reduction, name: as for Keras's losses. Without a reduction, each word gets an equal share of its sentence's
            loss.

    Call arguments:
        y_true: int `[batch, length]`: labels. A negative label masks its position. More axes, such as
            `[batch, windows, length]`, are joined to one: the windows of a row are one sentence.
        y_pred: float `[batch, length, num_labels]`.
        sample_weight: float `[batch]`, for sentences; or `[batch, length]`, for words: a weight of 0 masks a word, and
            the loss of a sentence is multiplied by the mean weight of its words.
    """

    ignore_class = -1

    def __init__(self, crf: CRF, reduction: str | None = "sum_over_batch_size", name: str = "crf_loss") -> None:
        super().__init__(name=name, reduction=reduction)
        self.layer = lambda: crf  # a closure: Keras would save an attribute's weights with the loss

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        y_true = _flatten_windows(ops.cast(y_true, "int32"))
        word_weights = sample_weight if sample_weight is not None and len(sample_weight.shape) == 2 else None
        for is_word in (undocumented.get_mask(y_pred), word_weights):
            if is_word is not None:
                y_true = ops.where(ops.cast(is_word, "bool"), y_true, self.ignore_class)
        if sample_weight is not None and word_weights is None:
            sample_weight = ops.expand_dims(sample_weight, 1)
        return super().__call__(y_true, _flatten_windows(y_pred, 1), sample_weight)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        is_word = y_true >= 0
        count = ops.sum(ops.cast(is_word, y_pred.dtype), axis=1, keepdims=True)
        sentence_loss = -ops.expand_dims(self.layer().log_likelihood(y_pred, y_true), 1)
        word_loss = ops.where(is_word, sentence_loss / ops.maximum(count, 1), 0)
        undocumented.set_mask(word_loss, is_word)
        return word_loss

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "crf": self.layer().name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> CRFLoss:
        if config["crf"] not in _LAYERS:
            raise ValueError(
                f"the loss is that of a CRF with the name {config['crf']!r}; read or make this layer first"
            )
        return cls(**{**config, "crf": _LAYERS[config["crf"]]})


def _bounded(emissions: Any) -> Any:
    """Limits emissions, such as the -inf of a label that is ruled out; NaN stays NaN."""
    return ops.clip(emissions, -LARGEST, LARGEST)


def _flatten_windows(values: Any, axes: int = 0) -> Any:
    """Joins all axes but the first and the last `axes`: `[batch, windows, length]` -> `[batch, windows * length]`."""
    if len(values.shape) == 2 + axes:
        return values
    shape = ops.shape(values)
    return ops.reshape(values, (shape[0], -1, *shape[len(shape) - axes :]))


class _Words:
    """The words of sentences, moved to the front of their rows, so that no masked positions are between them."""

    # A loop needs at least one step: if a row may have no position at all, a masked one is added at its end.

    def __init__(self, emissions: Any, mask: Any) -> None:
        self._is_padded = not emissions.shape[1]  # 0, or not known
        if self._is_padded and mask is None:
            mask = ops.ones(ops.shape(emissions)[:2], "bool")
        if self._is_padded:
            mask = _append_position(ops.cast(mask, "bool"))
        batch, length, _ = ops.shape(emissions)
        length += self._is_padded
        positions = ops.arange(length)
        if mask is None:
            self._source = self._target = None
            count = ops.full((batch,), length, "int32")
        else:
            self._mask = ops.cast(mask, "bool")
            count = ops.sum(ops.cast(self._mask, "int32"), axis=1)
            words_first = ops.where(self._mask, positions, positions + length)
            self._source = ops.argsort(words_first, axis=1)
            self._target = ops.maximum(ops.cumsum(ops.cast(self._mask, "int32"), axis=1) - 1, 0)
        self.is_word = ops.expand_dims(positions, 1) < count
        emissions = ops.transpose(self.gather(emissions), (1, 0, 2))
        # Padding may hold anything, even NaN.
        self.emissions = ops.where(_expand_like(self.is_word, emissions), emissions, 0)

    def gather(self, values: Any) -> Any:
        """Reorders values `[batch, length, ...]`: those of words first, those of masked positions after them."""
        values = _append_position(values) if self._is_padded else values
        return values if self._source is None else _take(values, self._source)

    def scatter(self, values: Any, elsewhere: float) -> Any:
        """Moves values of words, `[length, batch, ...]`, back to `[batch, length, ...]`; others are `elsewhere`."""
        values = ops.swapaxes(values, 0, 1)
        if self._target is None:
            return values
        scattered = ops.where(
            _expand_like(self._mask, values), _take(values, self._target), ops.cast(elsewhere, values.dtype)
        )
        return scattered[:, :-1] if self._is_padded else scattered


def _append_position(values: Any) -> Any:
    """Appends a position of zeros to each row, `[batch, length, ...]` -> `[batch, length + 1, ...]`."""
    return ops.pad(values, [[0, 0], [0, 1], *[[0, 0]] * (len(values.shape) - 2)])


def _expand_like(values: Any, others: Any) -> Any:
    """Appends axes of size 1 to `values` until they have as many axes as `others`."""
    for _ in range(len(others.shape) - len(values.shape)):
        values = ops.expand_dims(values, -1)
    return values


def _take(values: Any, index: Any) -> Any:
    return ops.take_along_axis(values, _expand_like(index, values), axis=1)


class _Chain(NamedTuple):
    """Sentences and scores, maybe with a first axis `batch`: the input of the algorithms below."""

    emissions: Any  # float [length, batch, labels]
    is_word: Any  # bool [length, batch]: in each column, the words come first
    start: Any  # float [labels]
    transitions: Any  # float [labels, labels]: from, to
    end: Any

    @property
    def steps(self) -> Any:
        """The positions of a loop, int32 `[length]`. In TensorFlow, `ops.scan` takes one tensor of unknown length."""
        return ops.arange(ops.shape(self.is_word)[0])


def _score(chain: _Chain, labels: Any) -> Any:
    """Computes `s(y)`, float `[batch]`, of labels, int `[length, batch]`; `chain.transitions` has no axis `batch`."""
    is_word = ops.cast(chain.is_word, chain.emissions.dtype)
    is_last = is_word - ops.concatenate([is_word[1:], ops.zeros_like(is_word[:1])])
    pairs = labels[:-1] * chain.emissions.shape[-1] + labels[1:]
    score = ops.sum(ops.take_along_axis(chain.emissions, labels[..., None], axis=2)[..., 0] * is_word, axis=0)
    score += ops.take(chain.start, labels[0]) * is_word[0]
    score += ops.sum(ops.take(ops.reshape(chain.transitions, (-1,)), pairs) * is_word[1:], axis=0)
    return score + ops.sum(ops.take(chain.end, labels) * is_last, axis=0)


def _forward(chain: _Chain, reduce: Callable[..., Any] = ops.logsumexp) -> tuple[Any, Any]:
    """Combines the scores of all paths that end at a word with a label: log-sum-exp or, with `_max`, the best score."""
    # It is `relative + total`, float `[length, batch, labels]` and `[length, batch, 1]`, with `reduce(relative) = 0`
    # over the labels, so that `relative` is exact even in long sentences. After its end, a sentence repeats its last
    # values.

    def step(state: tuple[Any, Any], t: Any) -> tuple[Any, Any]:
        scores, total = state
        after = reduce(ops.expand_dims(scores, 2) + chain.transitions, axis=1)
        after = ops.where(t == 0, chain.start, after) + chain.emissions[t]
        normalizer = reduce(after, axis=1, keepdims=True)
        is_word = ops.expand_dims(chain.is_word[t], 1)
        new_state = ops.where(is_word, after - normalizer, scores), ops.where(is_word, total + normalizer, total)
        return new_state, new_state

    zeros = ops.zeros_like(chain.emissions[0])
    return ops.scan(step, (zeros, zeros[:, :1]), chain.steps)[1]


def _backward(chain: _Chain) -> Any:
    """Computes the log-sum-exp of the scores of all paths from a word's label to the end, but its emission."""
    # It is float `[length, batch, labels]`, and its log-sum-exp over labels is 0; from the last word on, it is `end`.

    def step(following: Any, t: Any) -> tuple[Any, Any]:
        previous = ops.logsumexp(ops.expand_dims(following + chain.emissions[t], 1) + chain.transitions, axis=2)
        previous = previous - ops.logsumexp(previous, axis=1, keepdims=True)
        return ops.where(ops.expand_dims(chain.is_word[t], 1), previous, following), following

    end = ops.zeros_like(chain.emissions[0]) + chain.end
    return ops.scan(step, end, chain.steps, reverse=True)[1]


def _best_path(chain: _Chain) -> Any:
    """Finds the best path, int32 `[length, batch]`, from the last label back to the first."""
    best, _ = _forward(chain, _max)
    transposed = ops.transpose(chain.transitions)  # to, from

    def step(label: Any, t: Any) -> tuple[Any, Any]:
        previous = _argmax(best[ops.maximum(t - 1, 0)] + ops.take(transposed, label, axis=0))
        return ops.where(chain.is_word[t], previous, label), label

    return ops.scan(step, _argmax(best[-1] + chain.end), chain.steps, reverse=True)[1]


def _log_partition(chain: _Chain) -> Any:
    """Computes `log sum_y exp(s(y))`, float `[batch]`."""
    # Its gradient with respect to a score is the expected count of that score in a path. The counts are computed here,
    # so no loop is differentiated: XLA needs no bound on the steps, and TensorFlow stores no tensors of each step. The
    # value comes from `total`. The gradient comes from `expected`, the sum of all scores times their constant counts.
    fixed = _Chain(*map(ops.stop_gradient, chain))
    (forward, totals), backward = _forward(fixed), _backward(fixed)
    is_word = ops.cast(ops.expand_dims(fixed.is_word, 2), forward.dtype)
    marginals = ops.softmax(forward + backward, axis=-1) * is_word  # [length, batch, labels]

    def add_pairs(t: Any, pair_counts: Any) -> Any:
        scores = ops.expand_dims(forward[t - 1], 2) + fixed.transitions
        scores = scores + ops.expand_dims(fixed.emissions[t] + backward[t], 1)
        pair_marginals = ops.exp(scores - ops.logsumexp(scores, axis=(1, 2), keepdims=True))
        return pair_counts + pair_marginals * ops.expand_dims(is_word[t], 2)

    zeros = ops.zeros_like(ops.expand_dims(forward[0], 2) + fixed.transitions)
    pair_counts = ops.fori_loop(1, ops.shape(forward)[0], add_pairs, zeros)  # [batch, labels, labels]
    end_marginals = ops.softmax(forward[-1] + fixed.end, axis=-1) * is_word[0]
    expected = ops.sum(marginals * chain.emissions, axis=(0, 2)) + ops.sum(pair_counts * chain.transitions, axis=(1, 2))
    expected += ops.sum(marginals[0] * chain.start + end_marginals * chain.end, axis=1)
    total = (totals[-1, :, 0] + ops.logsumexp(forward[-1] + fixed.end, axis=-1)) * is_word[0, :, 0]
    return total + (expected - ops.stop_gradient(expected))


def _max(values: Any, **axes: Any) -> Any:
    return ops.max(values, initial=float("-inf"), **axes)  # without `initial`, Keras refuses an empty batch


def _argmax(values: Any) -> Any:
    return ops.cast(ops.argmax(values, axis=-1), "int32")
