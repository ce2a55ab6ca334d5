"""The `keras-bert` command. `__main__.py` lists its subcommands, one file each.

TensorFlow is imported when a subcommand runs: not for --help, and not for a wrong path, column, option or preset.
"""


def __getattr__(name: str) -> object:
    """Imports `main` at its first use: `python -m keras_bert.cli` imports this package before `__main__.py`."""
    if name != "main":
        raise AttributeError(f"module 'keras_bert.cli' has no attribute {name!r}")
    from keras_bert.cli.__main__ import main

    return main
