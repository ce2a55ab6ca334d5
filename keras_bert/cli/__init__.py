"""The `keras-bert` command. `__main__.py` lists its subcommands, one file each.

TensorFlow is imported late: --help, or an error in a path, column, option or preset, does not wait for it.
"""


def __getattr__(name: str) -> object:
    """Imports `main` at its first use, because `python -m keras_bert.cli` imports this package before `__main__.py`."""
    if name != "main":
        raise AttributeError(f"module 'keras_bert.cli' has no attribute {name!r}")
    from keras_bert.cli.__main__ import main

    return main
