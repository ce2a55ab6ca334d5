"""The files of tokenizers: Hugging Face's and KerasHub's, and SentencePiece models."""
