"""BertPreprocessor on Keras's other backends, without TensorFlow: the same inputs for the same texts."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertPreprocessor
from keras_bert.tasks.heads import spans
from keras_bert.tasks.heads.long_text import most_context as graph_most_context
from keras_bert.text import SentencePieceTokenizer
from keras_bert.text.arrays.packing import most_context
from keras_bert.text.arrays.preprocessor import ArrayPreprocessor, read_contexts
from keras_bert.text.packing import windows
from keras_bert.text.pairs import TRUNCATIONS

from ..support import small
from ..support.messages import error_names
from ..support.processes import run_python
from ..support.tokenization import train_deberta

TEXTS = [
    *small.TEXTS,
    "Unaffable naïveté, 1,234.5 % -- [MASK] and [SEP]!",
    "日本語 café\tЁлка \u00a0 x\u0301",
    "one two three " * 20,
]
WITHOUT = """
import json, sys

class Without:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])

sys.meta_path.insert(0, Without)
missing, preset, settings, texts = json.loads(sys.argv[1])
"""
PROGRAM = """
packed = BertPreprocessor.from_preset(preset, **settings)(tuple(texts))
print(json.dumps({name: values.tolist() for name, values in packed.items()}))
"""
ON_JAX = f"""{WITHOUT}
from keras_bert import BertPreprocessor
{PROGRAM}
try:
    from keras_bert import BertClassifier
except ImportError as error:
    print(error)
"""
ALONE = f"""{WITHOUT}
from keras_bert.text.arrays.packing import most_context
from keras_bert.text.arrays.preprocessor import ArrayPreprocessor as BertPreprocessor
{PROGRAM}
print(*({{"tensorflow", "keras", "jax", "torch"}} & {{*sys.modules}}))
"""


@pytest.mark.parity
def test_without_tensorflow(small_preset):
    pytest.importorskip("jax")
    columns = (TEXTS, TEXTS[::-1])
    ours = BertPreprocessor.from_preset(small_preset, sequence_length=32)(columns)
    arguments = json.dumps([["tensorflow", "tensorflow_text"], str(small_preset), {"sequence_length": 32}, columns])
    packed, error = run_python(ON_JAX, arguments, KERAS_BACKEND="jax", JAX_PLATFORMS="cpu").splitlines()
    for name, values in json.loads(packed).items():
        np.testing.assert_array_equal(values, ours[name])
    assert error.startswith("BertClassifier needs tensorflow, which is not installed")


@pytest.mark.parametrize(
    "missing", [["tensorflow", "tensorflow_text", "keras", "jax", "torch"], []], ids=["missing", "there"]
)
def test_the_array_preprocessor_needs_no_keras_and_imports_none(small_preset, missing):
    ours = BertPreprocessor.from_preset(small_preset)(TEXTS)
    arguments = json.dumps([missing, str(small_preset), {}, [TEXTS]])
    packed, imported = run_python(ALONE, arguments).split("\n", 1)
    for name, values in json.loads(packed).items():
        np.testing.assert_array_equal(values, ours[name])
    assert imported.strip() == ""


def check_the_same_inputs(preset, **settings):
    ours, theirs = (kind.from_preset(preset, **settings) for kind in (BertPreprocessor, ArrayPreprocessor))
    for texts in (TEXTS, (TEXTS, TEXTS[::-1]), TEXTS[0]):
        expected = ours(texts)
        for name, values in theirs(texts).items():
            assert values.dtype == np.int32
            np.testing.assert_array_equal(values, expected[name])


@pytest.mark.parametrize(
    "settings",
    [
        {"sequence_length": None},
        *({"sequence_length": 8, "truncation": each} for each in TRUNCATIONS if each != "error"),
        {"sequence_length": None, "pad_to_multiple_of": 4, "max_sequence_length": 7},
        {},
        {"sequence_length": 12, "stride": 3},
        {"sequence_length": None, "max_sequence_length": 14, "stride": 40, "pad_to_multiple_of": 4},
    ],
)
def test_the_same_inputs(small_preset, settings, untraced):
    check_the_same_inputs(small_preset, **settings)


@pytest.fixture(scope="module")
def byte_pair_preset(small_preset, byte_pairs, tmp_path_factory):
    directory = tmp_path_factory.mktemp("pairs")
    config = json.loads((small_preset / "config.json").read_text()) | {"vocab_size": byte_pairs.vocabulary_size}
    (directory / "config.json").write_text(json.dumps(config))
    byte_pairs.save_preset(directory)
    return directory


@pytest.mark.slow
def test_the_same_inputs_of_byte_pairs(byte_pair_preset, untraced):
    check_the_same_inputs(byte_pair_preset)


@pytest.mark.parametrize("left_out", [(), ("tokenizer.json", "tokenizer_config.json")], ids=["saved", "model alone"])
def test_the_same_inputs_of_deberta(left_out, small_preset, tmp_path, untraced):
    """Its pad token is [PAD], and published directories have no `tokenizer.json`."""
    tokenizer = SentencePieceTokenizer(train_deberta(), family="deberta-v2")
    config = json.loads((small_preset / "config.json").read_text()) | {"vocab_size": tokenizer.vocabulary_size}
    (tmp_path / "config.json").write_text(json.dumps(config))
    tokenizer.save_preset(tmp_path)
    for name in left_out:
        (tmp_path / name).unlink()
    check_the_same_inputs(tmp_path)


def test_a_damaged_vocabulary_is_refused_alike(byte_pair_preset, tmp_path):
    for path in byte_pair_preset.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    ids = json.loads((tmp_path / "vocab.json").read_text())
    ids["?" * 9] = ids.pop("!")
    (tmp_path / "vocab.json").write_text(json.dumps(ids))
    for kind in (BertPreprocessor, ArrayPreprocessor):
        with error_names(ValueError, tmp_path / "vocab.json", "no !", "byte 33"):
            kind.from_preset(tmp_path)


def test_the_tokenizer_of_another_model_is_refused_alike(small_preset, tmp_path):
    for path in small_preset.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    tokens = (tmp_path / "vocab.txt").read_text().splitlines()
    (tmp_path / "vocab.txt").write_text("\n".join([*tokens[:9], tokens[10], tokens[9], *tokens[11:]]))
    content = small.tokenizer(max_chars_per_word=100).tokenizer_json()
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    for kind in (BertPreprocessor, ArrayPreprocessor):
        with error_names(ValueError, "tokenizer.json", "vocab.txt", "contradict"):
            kind.from_preset(tmp_path)


@pytest.mark.parity
def test_characters():
    """Hugging Face's tables are those of an older Unicode, and lack 256 of the ideographs in Google's code."""
    ours, theirs = (kind.from_preset("all-MiniLM-L6-v2") for kind in (BertPreprocessor, ArrayPreprocessor))

    def differing(characters):
        texts = [f"a{character}b" for character in characters]
        expected, found = (each(texts)["input_word_ids"] for each in (ours, theirs))
        return [
            character
            for character, *rows in zip(characters, expected, found, strict=True)
            if np.any(rows[0] != rows[1])
        ]

    assert differing([chr(code) for code in (*range(1, 0x600), *range(0x3000, 0x3200), *range(0xFF00, 0xFFF0))]) == []
    newer = ["\u2e5d", "\u0898", "\u0890"]  # punctuation, an accent and a format character since 2020
    other = ["\u166d", "\u1734"]  # of another category since then
    assert differing(newer + other) == newer + other
    ideographs = [chr(code) for code in range(0x2B820, 0x2B930)]
    assert differing(ideographs) == ideographs[:256]


def test_bad_texts(small_preset):
    preprocessor = ArrayPreprocessor.from_preset(small_preset)
    with error_names(TypeError, "text 1", 7, "int", "str"):
        preprocessor(["a", 7])
    with error_names(ValueError, "columns", "[1, 2]", "pair"):
        preprocessor((["a"], ["b", "c"]))
    for kind in (BertPreprocessor, ArrayPreprocessor):
        with error_names(ValueError, "truncation", "error", 1, 6, 4):  # the first text fills its row
            kind.from_preset(small_preset, sequence_length=6, truncation="error")(["a b c d", "a b c d e f"])
        with error_names(ValueError, "truncation", "'longest'", "odd_to_longer"):
            kind.from_preset(small_preset, truncation="longest")
    with error_names(ValueError, "sequence_length is 2", 3):
        ArrayPreprocessor.from_preset(small_preset, sequence_length=2)


@pytest.mark.parametrize(("longest", "stride"), [(9, 1), (10, 3), (12, 8), (20, 50)])
def test_the_same_windows(small_preset, longest, stride):
    preprocessor = ArrayPreprocessor.from_preset(small_preset, sequence_length=longest, stride=stride)
    lengths = np.random.default_rng(0).integers(0, 40, (2, 30))
    lengths[:, :2] = [[0, 30], [0, 0]]
    segments = tuple([list(range(length)) for length in column] for column in lengths)
    for columns in (segments[:1], segments, ([], [])):
        ragged = [
            tf.RaggedTensor.from_row_lengths(np.concatenate([*column, []]), [*map(len, column)]) for column in columns
        ]
        expected = windows(ragged, longest - preprocessor.special_tokens(len(columns)), stride)
        found = preprocessor.windows(columns)
        assert found.rows.tolist() == expected.rows.numpy().tolist()
        assert found.starts.tolist() == expected.starts.numpy().tolist()
        assert [*found.segments] == [each.to_list() for each in expected.segments]
        best = graph_most_context(expected.rows, expected.starts, expected.segments[-1].row_lengths())
        assert [each.tolist() for each in most_context(found)] == best.to_list()


def test_without_a_stride_each_text_is_a_window(small_preset):
    preprocessor = ArrayPreprocessor.from_preset(small_preset, sequence_length=6)
    found = preprocessor.windows(([[7] * 9, []],))
    assert (found.rows.tolist(), found.starts.tolist(), found.segments) == ([0, 1], [0, 0], ([[7] * 9, []],))


def test_windows_without_room(small_preset):
    with error_names(ValueError, 3, "no room", 3):
        ArrayPreprocessor.from_preset(small_preset, sequence_length=3, stride=1).windows(([[1]], [[2]]))
    with error_names(ValueError, "rows of 4 tokens", "no room for windows over 2 texts"):
        ArrayPreprocessor.from_preset(small_preset, sequence_length=4, stride=1).windows(([[1]], [[2]]))


def test_the_same_windows_of_contexts(small_preset, untraced):
    settings = {"sequence_length": 24, "stride": 5}
    ours, theirs = (kind.from_preset(small_preset, **settings) for kind in (BertPreprocessor, ArrayPreprocessor))
    questions = ["what is it?", "", "why " * 20]
    contexts = [TEXTS[-1], "", "naïve café, 日本語 " * 9]
    expected = spans.read_contexts(ours, tf.constant(questions), tf.constant(contexts))
    found = read_contexts(theirs, questions, contexts)
    question, window, is_best = expected.segments
    assert [*found.windows.segments] == [question.to_list(), window.to_list()]
    assert [each.tolist() for each in found.most_context] == is_best.to_list()
    assert found.windows.rows.tolist() == expected.rows.numpy().tolist()
    assert found.windows.starts.tolist() == expected.begins.numpy().tolist()
    assert found.tokens_before.tolist() == spans.tokens_before(ours, question).numpy().tolist()
    for text, tokens, starts, ends in zip(contexts, found.tokens, expected.starts, expected.ends, strict=True):
        in_characters = spans.character_spans(tf.constant([text]), starts[None], ends[None])
        assert [tokens.starts, tokens.ends] == [each[0].numpy().tolist() for each in in_characters]
    packed = theirs.pack(found.windows.segments)
    for name, values in ours.tokenizer.pack([question, window], 24).items():
        np.testing.assert_array_equal(packed[name], values)
