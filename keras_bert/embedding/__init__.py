"""Files of texts -> the same files with a vector in each row: a corpus of any size."""

from keras_bert.embedding.writing import embed_files

__all__ = ["embed_files"]
