from ..text.conftest import shared_data, tokenizer, vocabulary  # noqa: F401
