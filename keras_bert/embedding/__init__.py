"""Embeds files of texts, of any size: writes copies with a vector in each row."""

from keras_bert.embedding.file_embedding import embed_files

__all__ = ["embed_files"]
