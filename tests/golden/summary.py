"""What the golden files keep of a hidden state: enough to notice any change, little enough to commit."""

import numpy as np

COEFFICIENTS = 8


def summary(hidden: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Eight numbers for each hidden state of a real token, each of them a sum over all of its elements.

    They are coefficients of its cosine transform: orthonormal, so an error is not magnified, and the same everywhere,
    which a random projection need not be.

    Args:
        hidden: float `[..., batch, seq_length, hidden]`.
        mask: int `[batch, seq_length]`, 1 = token, 0 = padding.

    Returns:
        float32 `[..., tokens, 8]`.
    """
    width = hidden.shape[-1]
    position = (np.arange(width)[:, None] + 0.5) / width  # [hidden, 1]
    basis = np.cos(np.pi * position * (1 + np.arange(COEFFICIENTS))) * np.sqrt(2 / width)  # [hidden, 8]
    return (hidden[..., mask.astype(bool), :].astype(np.float64) @ basis).astype(np.float32)
