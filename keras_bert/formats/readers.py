"""The table of formats of checkpoints, with the module that reads and writes each. `model_files.py` has their files."""

from keras_bert.formats import hugging_face, keras_hub
from keras_bert.formats.tensorflow import garden, saved_model, tf1

# The module of each format has `recognizes(preset)` and `open_checkpoint(preset)`. Those of formats that can be written
# also have `write` and `files_of(config)`. The first that recognizes a preset reads it.
READERS = {
    "hugging_face": hugging_face,
    "saved_model": saved_model,
    "keras_hub": keras_hub,
    "tf1": tf1,
    "garden": garden,
}
