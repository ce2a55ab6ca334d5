"""The paths of a CRF's labels through a sentence, in NumPy (Lafferty et al. 2001); `CRF` computes them in the graph."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# The score of a forbidden transition, and the limit of emissions, whose sums it always outweighs. Both are finite,
# because inf - inf is NaN.
FORBIDDEN, LARGEST = -1e35, 1e30


class Scores(NamedTuple):
    """The scores of a CRF, float64; `FORBIDDEN` where the scheme forbids a label or a transition."""

    start: np.ndarray  # [labels]
    transitions: np.ndarray  # [labels, labels]: from, to
    end: np.ndarray  # [labels]


def best_path(emissions: np.ndarray, scores: Scores) -> np.ndarray:
    """Finds the most probable labels of a sentence as a whole, int `[words]`, from emissions, `[words, labels]`."""
    emissions = np.nan_to_num(np.float64(emissions), nan=-LARGEST).clip(-LARGEST, LARGEST)
    if not len(emissions):
        return np.zeros(0, int)
    best, previous = scores.start + emissions[0], []
    for each in emissions[1:]:
        paths = best[:, None] + scores.transitions  # from, to
        previous.append(paths.argmax(axis=0))
        best = paths.max(axis=0) + each
    path = [int((best + scores.end).argmax())]
    for each in reversed(previous):
        path.append(int(each[path[-1]]))
    return np.array(path[::-1])


def marginals(emissions: np.ndarray, scores: Scores) -> np.ndarray:
    """Computes the probability of each label of each word, float64 `[words, labels]`, by forward-backward."""
    emissions = np.float64(emissions).clip(-LARGEST, LARGEST)
    if not len(emissions):
        return emissions
    forward, backward = [scores.start + emissions[0]], [scores.end]
    for each in emissions[1:]:
        after = _log_sum(forward[-1][:, None] + scores.transitions, 0) + each
        forward.append(after - _log_sum(after, 0))
    for each in emissions[:0:-1]:
        before = _log_sum(scores.transitions + (each + backward[-1]), 1)
        backward.append(before - _log_sum(before, 0))
    paths = np.array(forward) + np.array(backward[::-1])
    return np.exp(paths - _log_sum(paths, 1)[:, None])


def _log_sum(scores: np.ndarray, axis: int) -> np.ndarray:
    largest = scores.max(axis=axis)
    return largest + np.log(np.exp(scores - np.expand_dims(largest, axis)).sum(axis=axis))
