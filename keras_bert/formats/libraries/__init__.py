"""The files of other libraries: sentence-transformers' kinds of models, PyLate, ColBERT, model2vec, and KerasHub."""
