"""Embeds files of texts, of any size: writes copies with a vector in each row.

TensorFlow is imported when a model is loaded, so that files are checked before.
"""

from keras_bert.embedding.file_embedding import embed_files
from keras_bert.embedding.projector import write_projector

__all__ = ["embed_files", "write_projector"]
