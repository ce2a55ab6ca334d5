"""Arrays written row by row."""

import numpy as np
import pytest

from keras_bert.embedding.vector_files import write_npy


@pytest.mark.parametrize("counts", [[], [0], [9, 1], [99_999, 1, 30]])
def test_npy_written_in_blocks_is_what_numpy_would_have_written(tmp_path, counts):
    blocks = [np.random.default_rng(count).normal(size=(count, 3)).astype(np.float32) for count in counts]
    with open(tmp_path / "blocks.npy", "wb") as file:
        write_npy(file, blocks, width=3)
    np.save(tmp_path / "whole.npy", np.concatenate([np.zeros((0, 3), np.float32), *blocks]))
    assert (tmp_path / "blocks.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
