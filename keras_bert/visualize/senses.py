"""Shows the occurrences of a word in a text as points: their contextual vectors in two dimensions."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import tensorflow as tf

from keras_bert.counted import counted
from keras_bert.encoder import BertEncoder
from keras_bert.pretraining.corpus import sentences
from keras_bert.progress import progress_bar
from keras_bert.text import BertPreprocessor
from keras_bert.text.arguments import list_of_str
from keras_bert.visualize.evaluation_page import plain_page
from keras_bert.visualize.view import new_figure, png

_SENTENCES_AT_A_TIME = 16


@dataclass(frozen=True)
class Occurrence:
    """An occurrence of a word: `sentence[start:end]`. `label` is that of its paragraph; None without labels."""

    sentence: str
    start: int
    end: int
    label: str | None = None


@dataclass(frozen=True)
class Senses:
    """A word's occurrences and their vectors.

    Attributes:
        word: the word, as the caller wrote it.
        occurrences: the occurrences, in the order of the text.
        vectors: float32 `[occurrences, hidden]`: the mean of each occurrence's hidden states in the last layer.
        static: float32 `[hidden]`: the mean of the token embeddings of the word, which do not depend on context.
        points: float32 `[occurrences, 2]`: the two principal components of `vectors`.
        static_point: float32 `[2]`: `static` in the same projection.

    Example:
        >>> occurrences = [Occurrence("a bank", 2, 6, label) for label in ("money", "money", "river")]
        >>> vectors = np.array([[3, 4], [4, 3], [4, -3]], np.float32)
        >>> senses = Senses("bank", tuple(occurrences), vectors, vectors[0], vectors, vectors[0])
        >>> f"{senses.mean_cosine(same_label=True):.2f} {senses.mean_cosine(same_label=False):.2f}"
        '0.96 0.14'
    """

    word: str
    occurrences: tuple[Occurrence, ...]
    vectors: np.ndarray
    static: np.ndarray
    points: np.ndarray
    static_point: np.ndarray

    @property
    def labels(self) -> list[str]:
        """The labels of the occurrences, each once, in alphabetical order; empty without labels."""
        return sorted({each.label for each in self.occurrences if each.label is not None})

    def mean_cosine(self, same_label: bool) -> float:
        """Computes the mean cosine of all pairs of occurrences with the same label, or with different labels.

        The first is larger if the vectors tell the labels apart. Without context, the cosine of any pair is 1. The
        result is NaN if there is no such pair.
        """
        unit = self.vectors / np.linalg.norm(self.vectors, axis=1, keepdims=True)
        first, second = np.triu_indices(len(unit), k=1)
        labels = np.array([each.label for each in self.occurrences])
        chosen = (labels[first] == labels[second]) == same_label
        cosines = (unit[first] * unit[second]).sum(axis=1)[chosen]
        return float(cosines.mean()) if len(cosines) else math.nan


def find_occurrences(word: str, paragraphs: Iterable[str], labels: Sequence[str] | None = None) -> list[Occurrence]:
    """Finds the occurrences of a whole word, or of words with spaces, in each sentence of a text, ignoring case."""
    if not isinstance(word, str):
        raise TypeError(f"word is {word!r:.60} ({type(word).__name__}); expected a str")
    if not word.strip():
        raise ValueError("word is empty; pass a word of the text")
    pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE)
    paragraphs = list_of_str(paragraphs, "paragraphs", "paragraph")
    each_label = [None] * len(paragraphs) if labels is None else list_of_str(labels, "labels", "label")
    if len(each_label) != len(paragraphs):
        raise ValueError(f"got {counted(paragraphs, 'paragraph')} and {counted(each_label, 'label')}; both must match")
    return [
        Occurrence(sentence, *match.span(), label)
        for paragraph, label in zip(paragraphs, each_label, strict=True)
        for sentence in sentences(paragraph)
        for match in pattern.finditer(sentence)
        if not (_is_mark(sentence[: match.start()][-1:]) or _is_mark(sentence[match.end() :][:1]))
    ]


def _is_mark(character: str) -> bool:
    """Checks for a combining mark, which to `re` is no part of a word."""
    return character != "" and unicodedata.category(character).startswith("M")


def find_senses(
    encoder: BertEncoder,
    preprocessor: BertPreprocessor,
    word: str,
    paragraphs: Iterable[str],
    labels: Sequence[str] | None = None,
) -> Senses:
    """Encodes a text sentence by sentence, and computes a vector and a point for each occurrence of a word.

    Use it to see how many senses of a word an encoder separates.

    Args:
        encoder, preprocessor: an encoder, and its preprocessor with `sequence_length=None`.
        word: one word, or several with spaces; case is ignored.
        paragraphs: the text, which is split into sentences.
        labels: a label for each paragraph, such as the sense of the word there; they do not change the vectors.

    Raises:
        TypeError: the word, the paragraphs or the labels are not str.
        ValueError: the word occurs less than twice, or in a sentence that is too long for the model; or the number of
            labels is not that of paragraphs.

    Example:
        >>> encoder = BertEncoder.from_preset("all-MiniLM-L6-v2")
        >>> preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=None)
        >>> text = ["He robbed a bank. She left the bank rich. They sat on the bank of the river."]
        >>> robbed, rich, river = find_senses(encoder, preprocessor, "bank", text).vectors
        >>> bool(robbed @ rich > robbed @ river)
        True
    """
    occurrences = find_occurrences(word, paragraphs, labels)
    if len(occurrences) < 2:
        count = "once" if occurrences else "nowhere"
        raise ValueError(f"{word!r} occurs {count} in the text; a comparison needs at least two occurrences")
    vectors = _compute_vectors(encoder, preprocessor, occurrences)
    tokens = preprocessor.tokenizer.tokenize_words(tf.ragged.constant([word.split()]))
    static = encoder.embeddings.word_embeddings(tokens.flat_values)
    if encoder.embeddings.projection is not None:
        static = encoder.embeddings.projection(static)
    static = np.mean(np.asarray(static, np.float32), axis=0)
    centre = vectors.mean(axis=0)
    axes = np.linalg.svd(vectors - centre, full_matrices=False)[2][:2]  # [2, hidden]
    axes = axes * np.sign(axes[np.arange(2), np.abs(axes).argmax(axis=1)])[:, None]  # SVD leaves signs open
    return Senses(
        word=word,
        occurrences=tuple(occurrences),
        vectors=vectors,
        static=static,
        points=(vectors - centre) @ axes.T,
        static_point=(static - centre) @ axes.T,
    )


def _compute_vectors(
    encoder: BertEncoder, preprocessor: BertPreprocessor, occurrences: Sequence[Occurrence]
) -> np.ndarray:
    vectors = np.zeros((len(occurrences), encoder.config.hidden_size), np.float32)
    max_tokens = preprocessor.max_sequence_length - preprocessor.tokenizer.pair_format.special_tokens(1)
    with progress_bar(len(occurrences), "sentences") as bar:
        for first in range(0, len(occurrences), _SENTENCES_AT_A_TIME):
            batch = occurrences[first : first + _SENTENCES_AT_A_TIME]
            ids, starts, ends = preprocessor.tokenizer.tokenize_with_offsets([each.sentence for each in batch])
            for each, length in zip(batch, ids.row_lengths().numpy().tolist(), strict=True):
                if length > max_tokens:
                    raise ValueError(
                        f"a sentence has {length} tokens, more than the {max_tokens} that this model reads; split it: "
                        f"{each.sentence[:60]!r}..."
                    )
            states = np.asarray(encoder(preprocessor.pack(ids), training=False)["sequence_output"], np.float32)
            for row, (each, token_starts, token_ends) in enumerate(
                zip(batch, starts.to_list(), ends.to_list(), strict=True)
            ):
                start, end = (len(each.sentence[:index].encode()) for index in (each.start, each.end))
                inside = (np.array(token_starts) < end) & (np.array(token_ends) > start)
                if not inside.any():
                    raise ValueError(f"{each.sentence[each.start : each.end]!r} has no tokens")
                vectors[first + row] = states[row, 1 : 1 + len(inside)][inside].mean(axis=0)  # after [CLS]
            bar.update(len(batch))
    return vectors


# -- Draws the occurrences of a word as points, on a self-contained HTML page or in a picture.

RADIUS = 6  # of a point, in pixels
LETTERS = 11  # the size of a label's letters, in pixels

_DIRECTIONS = np.array([(1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1)])
_RINGS = (1, 1.8, 2.6)  # distances of a label from its point, as multiples of the smallest


def label_places(
    points: np.ndarray, numbers: Sequence[str], size: tuple[float, float]
) -> list[tuple[float, float] | None]:
    """Finds the centre of each label, in pixels, at the nearest free place around its point; None without one."""
    taken, halves = points, np.full(points.shape, float(RADIUS))  # rectangles to avoid: centres and half sizes
    places: list[tuple[float, float] | None] = []
    for point, number in zip(points, numbers, strict=False):
        half = np.array([0.6 * len(number) + 0.4, 1.0]) * LETTERS / 2  # with a gap between two numbers
        candidates = np.concatenate([point + ring * _DIRECTIONS * (half + RADIUS + 2) for ring in _RINGS])
        inside = ((candidates >= half) & (candidates <= np.array(size) - half)).all(axis=1)
        overlaps = np.any((np.abs(candidates[:, None] - taken) < half + halves).all(axis=2), axis=1)
        free = candidates[inside & ~overlaps][:1]
        taken, halves = np.concatenate([taken, free]), np.concatenate([halves, np.tile(half, (len(free), 1))])
        places.append((round(float(free[0, 0]), 1), round(float(free[0, 1]), 1)) if len(free) else None)
    return places


def is_far(label: Sequence[float], point: Sequence[float]) -> bool:
    """Checks whether a label is so far from its point that a line must join them."""
    return float(np.hypot(label[0] - point[0], label[1] - point[1])) > 3 * RADIUS + LETTERS


_WIDTH, _HEIGHT, _MARGIN = 800, 500, 30
# Okabe and Ito's colours, those that a white page would swallow replaced by dark ones; black is without context.
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#6b1f4f", "#808080")
_STYLE = f"""svg {{ width: 100%; border: 1px solid #ccc }}
circle {{ fill-opacity: .8 }}
text {{ font-size: {LETTERS}px; fill: #444; text-anchor: middle; dominant-baseline: central }}
line {{ stroke: #bbb }}
""" + "".join(f".c{number} {{ fill: {colour}; color: {colour} }}\n" for number, colour in enumerate(_COLOURS))
_BODY = """<p>{count} occurrences. Those in similar contexts are close together. The black diamond is the word without
context. Point at an occurrence to read its sentence; numbers without room are left out.</p>{legend}
<svg viewBox="0 0 {width} {height}" role="img">
{points}
</svg>
<ol>
{sentences}
</ol>
"""


def page(senses: Senses) -> str:
    """Makes an HTML page: a plot of points, each with its sentence as a tooltip, and a list of the sentences.

    Each label has a colour. Raises ValueError for more than eight labels.
    """
    colours = _colours_of_labels(senses)
    places = _scale_to_page(np.vstack([senses.points, senses.static_point[None]]))
    numbers = [str(number) for number in range(1, len(senses.occurrences) + 1)]
    labels = label_places(places, numbers, (_WIDTH, _HEIGHT))
    points = []
    for number, each, (x, y), label in zip(numbers, senses.occurrences, places, labels, strict=False):
        drawn_label = ""
        if label is not None:
            label_x, label_y = label
            if is_far(label, (x, y)):
                drawn_label = f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{label_x:.1f}" y2="{label_y:.1f}"/>'
            drawn_label += f'<text x="{label_x:.1f}" y="{label_y:.1f}">{number}</text>'
        title = f"<title>{number}: {escape(each.sentence)}</title>"
        points.append(
            f'<a href="#s{number}">{drawn_label}<circle class="c{colours[each.label]}" cx="{x:.1f}" cy="{y:.1f}" '
            f'r="{RADIUS}">{title}</circle></a>'
        )
    x, y = places[-1]
    points.append(
        f'<path d="M{x:.1f} {y - 8:.1f}l8 8l-8 8l-8 -8z"><title>{escape(senses.word)}, without context</title></path>'
    )
    names: dict[str | None, str] = {
        label: f'<span class="c{colours[label]}">●</span> {escape(label)}' for label in senses.labels
    }
    sentences = [
        f'<li id="s{number}">{names[each.label] + ": " if names else ""}{_mark_word(each)}</li>'
        for number, each in enumerate(senses.occurrences, start=1)
    ]
    legend = f"\n<p>{' '.join(names.values())}. {_describe_cosines(senses)}</p>" if names else ""
    body = _BODY.format(
        count=len(senses.occurrences),
        legend=legend,
        width=_WIDTH,
        height=_HEIGHT,
        points="\n".join(points),
        sentences="\n".join(sentences),
    )
    return plain_page(senses.word, body, _STYLE)


def _describe_cosines(senses: Senses) -> str:
    means = {"the same label": senses.mean_cosine(True), "different labels": senses.mean_cosine(False)}
    shown = ", ".join(f"{mean:.2f} with {which}" for which, mean in means.items() if not math.isnan(mean))
    return f"The mean cosine of two occurrences is {shown}; without context, 1."


def _colours_of_labels(senses: Senses) -> dict[str | None, int]:
    """Numbers the colour of each label, or of None without labels."""
    if len(senses.labels) > len(_COLOURS):
        raise ValueError(
            f"there are {len(senses.labels)} labels, and colours for {len(_COLOURS)}; use fewer, or write JSON lines"
        )
    return {label: number for number, label in enumerate(senses.labels or [None])}


def picture(senses: Senses) -> bytes:
    """Draws a PNG of the points that `page` shows, with its errors. Raises ImportError without matplotlib."""
    figure, axes = new_figure(8, 5)
    drawn = {}
    for label, colour in _colours_of_labels(senses).items():
        points = senses.points[[each.label == label for each in senses.occurrences]]
        drawn["in a sentence" if label is None else label] = axes.scatter(*points.T, alpha=0.8, color=_COLOURS[colour])
    drawn["without context"] = axes.scatter(*senses.static_point, marker="D", color="black")
    axes.set_title(senses.word, parse_math=False)
    for text in axes.legend(drawn.values(), drawn).get_texts():
        text.set_parse_math(False)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # now the places are final
    places = axes.transData.transform(np.vstack([senses.points, senses.static_point[None]]))
    numbers = [str(number) for number in range(1, len(senses.points) + 1)]
    labels = label_places(places, numbers, figure.bbox.size)
    for number, point, place, label in zip(numbers, senses.points, places, labels, strict=False):
        if label is not None:
            axes.annotate(
                number,
                point,
                xytext=(np.array(label) - place) * 72 / figure.dpi,
                textcoords="offset points",
                fontsize=LETTERS * 72 / figure.dpi,
                ha="center",
                va="center",
                arrowprops={"arrowstyle": "-", "color": "#bbbbbb"} if is_far(label, place) else None,
            )
    return png(figure)


def _scale_to_page(points: np.ndarray) -> np.ndarray:
    low, high = points.min(axis=0), points.max(axis=0)
    size = np.array([_WIDTH, _HEIGHT]) - 2 * _MARGIN
    x, y = (_MARGIN + (points - low) / np.maximum(high - low, 1e-9) * size).T
    return np.stack([x, _HEIGHT - y], axis=1)


def _mark_word(occurrence: Occurrence) -> str:
    sentence, start, end = occurrence.sentence, occurrence.start, occurrence.end
    return f"{escape(sentence[:start])}<mark>{escape(sentence[start:end])}</mark>{escape(sentence[end:])}"
