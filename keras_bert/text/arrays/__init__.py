"""Texts as lists of str to ids in NumPy, by Hugging Face's `tokenizers`: for exports, and on JAX and PyTorch."""
