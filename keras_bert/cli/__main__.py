from keras_bert.cli import main

main(prog_name="keras-bert")
