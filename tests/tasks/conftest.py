from ..text.conftest import shared_data  # noqa: F401
