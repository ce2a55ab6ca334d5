"""The vocabulary and the configuration of a new model."""

from pathlib import Path

from keras_bert.config import SIZES, BertConfig
from keras_bert.formats import FAMILIES, read_config
from keras_bert.text import WordPieceTokenizer
from keras_bert.text.loading import load_tokenizer
from keras_bert.text.tokenizer import Tokenizer


def read_vocabulary(path: str | Path) -> Tokenizer:
    """The tokenizer of a directory, or of an uncased `vocab.txt`. Raises ValueError if the file has capitals."""
    path = Path(path)
    if path.is_dir():
        return load_tokenizer(path)
    tokenizer = WordPieceTokenizer(path)
    special = set(tokenizer.special_tokens.values())
    for token in tokenizer.vocabulary:
        if token != token.lower() and token not in special and not token.startswith("[unused"):
            raise ValueError(
                f"{path} has capitals, such as {token!r}, but a file is read as an uncased vocabulary; give a "
                "directory with a tokenizer_config.json, as `keras-bert vocab --cased` writes it"
            )
    return tokenizer


def config_of(size: str, tokenizer: Tokenizer, pairs: bool) -> BertConfig:
    """The configuration of a size ("tiny" to "large") or of a `config.json`, for a tokenizer.

    Raises:
        FileNotFoundError, ValueError: there is no such size or file, the configuration does not fit the tokenizer, or
            it is for pairs, and its family has no head for them.
    """
    tokens, padding = tokenizer.vocabulary_size, tokenizer.pad_token_id
    if f"bert-{size}" in SIZES:
        return BertConfig.named(f"bert-{size}", vocab_size=tokens, pad_token_id=padding)
    if not size.endswith(".json"):
        names = ", ".join(name.removeprefix("bert-") for name in SIZES if name.startswith("bert-"))
        raise ValueError(f"there is no size {size!r}; the sizes are {names}; or give a config.json")
    config = read_config(size)
    try:
        config.check_vocabulary(tokens, tokenizer.is_whole)
    except ValueError as error:
        raise ValueError(f"{size}: {error}") from None
    if config.pad_token_id != padding:
        raise ValueError(f"{size}: pad_token_id is {config.pad_token_id}, but it is {padding} in the vocabulary")
    if pairs and "next_sentence" not in FAMILIES[config.family].heads:
        raise ValueError(f"{config.family} has no head for pairs; choose the objective 'sentences'")
    return config
