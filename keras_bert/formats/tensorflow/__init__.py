"""TensorFlow's files: checkpoints of TensorFlow 1 and 2, SavedModels, and weights that transformers 4 wrote."""
