"""What another process makes of the same: in another country, with other hashes, from a model's file alone."""

import json

import keras
import pytest

from keras_bert.text import learn_vocabulary

from ..support import small
from ..support.learning import SIZES
from ..support.processes import run_python
from ..support.texts import SENTENCES

PROGRAM = """
import json, sys
import keras, tensorflow as tf
from keras_bert.text import WordPieceTokenizer, learn_vocabulary

tf.config.run_functions_eagerly(True)
path, sizes, sentences = sys.argv[1], *map(json.loads, sys.argv[2:])
tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "i", "##\u0307", "##\u0300", "ì", "ĩ", "ı", "j", "į"]
texts = ["I İ Ì Ĩ Į i J ı", "é I"]
tokenized = [WordPieceTokenizer(tokens, strip_accents=strip).tokenize(texts).to_list() for strip in (True, False)]
packed = keras.models.load_model(path)(tf.constant(["film time"]))["input_word_ids"].numpy().tolist()
learned = [str(learn_vocabulary(sentences, size, kind).get_config()) for kind, size in sizes.items()]
print(json.dumps([tokenized, packed, learned]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["tr_TR.UTF-8", "lt_LT.UTF-8"])
def test_locale_and_hashes_do_not_matter_and_a_file_has_its_vocabulary(locale, tokenizer, tmp_path, untraced):
    """ICU's lower-casing follows the process's locale, in which a Turkish I becomes a dotless ı."""
    for library in ("tokenizers", "sentencepiece"):
        pytest.importorskip(library, reason="which learns")
    inputs = keras.Input((), dtype="string")
    keras.Model(inputs, small.preprocessor(sequence_length=8)(inputs)).save(tmp_path / "model.keras")
    variables = {"LC_ALL": locale, "PYTHONHASHSEED": str(len(locale)), "PYTHONIOENCODING": "utf-8"}
    arguments = tmp_path / "model.keras", json.dumps(SIZES), json.dumps(SENTENCES * 3)
    (stripped, kept), packed, learned = json.loads(run_python(PROGRAM, *arguments, **variables).splitlines()[-1])
    assert stripped == [[5, 5, 5, 5, 5, 5, 11, 10], [1, 5]]
    assert kept == [[5, 5, 6, 8, 9, 12, 5, 11, 10], [1, 5]]
    assert packed == [[2, *map(tokenizer.vocabulary.index, ("film", "time")), 3, 0, 0, 0, 0]]
    assert learned == [str(learn_vocabulary(SENTENCES * 3, size, kind).get_config()) for kind, size in SIZES.items()]
