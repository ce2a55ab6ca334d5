"""`python -m keras_bert.cli` is `keras-bert`."""

from keras_bert.cli import main

main(prog_name="keras-bert")
