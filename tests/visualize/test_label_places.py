"""Labels of points: none covers another one or a point."""

import numpy as np

from keras_bert.visualize.senses import LETTERS, RADIUS, label_places


def rectangles(points, numbers, labels):
    """Centres and sizes of all points and of the labels that are shown."""
    sizes = [(0.6 * LETTERS * len(number), LETTERS) for number in numbers]
    shown = [(label, size) for label, size in zip(labels, sizes, strict=True) if label]
    shown += [(point, (2 * RADIUS, 2 * RADIUS)) for point in points]
    return np.array([centre for centre, _ in shown]), np.array([size for _, size in shown])


def test_labels_cover_nothing():
    points = np.random.default_rng(0).normal([400, 250], 40, size=(90, 2))
    numbers = [str(number) for number in range(1, 81)]  # ten points have none
    labels = label_places(points, numbers, (800, 500))
    assert len(labels) == 80
    assert 40 < sum(label is not None for label in labels) < 80
    centres, sizes = rectangles(points, numbers, labels)
    covered = (np.abs(centres[:, None] - centres) + 0.11 < (sizes[:, None] + sizes) / 2).all(axis=2)
    count = len(centres) - len(points)
    np.fill_diagonal(covered, False)
    assert not covered[:count].any()


def test_every_label_is_shown_where_there_is_room():
    points = np.array([[100, 100], [108, 100], [100, 108], [108, 108], [4, 4], [196, 196]], float)
    labels = label_places(points, list("123456"), (200, 200))
    assert None not in labels
    assert all(0 <= place <= 200 for label in labels for place in label)
    assert all(np.hypot(*(np.array(label) - point)) < 45 for label, point in zip(labels, points, strict=True))
