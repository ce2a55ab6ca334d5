"""Static vectors: the files of model2vec and of StaticEmbedding, beside means that NumPy computes.

model2vec itself is compared with where it is installed.
"""

import json
import re
import string

import keras
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import save_file

from keras_bert import BertConfig, BertEncoder, BertSentenceEncoder, runtimes
from keras_bert.convert import convert
from keras_bert.formats import read_config
from keras_bert.formats.tokenizers.unigram import json_of_model
from keras_bert.saved_model import export_serving
from keras_bert.text import load_tokenizer
from keras_bert.text.arrays.preprocessor import ArrayPreprocessor

from ..support import small, tokenization
from ..support.messages import error_names
from ..support.precisions import needs_bfloat16
from ..support.reference import bytepair
from ..support.tokenization import UNIGRAM_TEXTS, UNLIKE

pytestmark = pytest.mark.usefixtures("untraced_module")
SIZE, LONGEST = 12, 40
TOKENS = [token for token in small.VOCABULARY if token not in ("[CLS]", "[SEP]", "[MASK]")]
TEXTS = [*small.TEXTS, "a", " \t\n", "\0", "🙂", "good 🙂 film", "x" * 300, "the good film, the bad 🙂 " * 2600]


def table(seed=0):
    return np.random.default_rng(seed).normal(size=(len(TOKENS), SIZE)).astype(np.float32)


def write_tokenizer(path, **settings):
    content = small.tokenizer().tokenizer_json()
    content["model"]["vocab"] = {token: index for index, token in enumerate(TOKENS)}
    content["added_tokens"] = content["added_tokens"][:2]
    path.write_text(json.dumps({**content, "post_processor": None, **settings}))


def write(directory, tensors, modules=True, **config):
    """Writes a directory as model2vec does."""
    save_file(tensors, directory / "model.safetensors")
    write_tokenizer(directory / "tokenizer.json", truncation={"max_length": LONGEST, "strategy": "LongestFirst",
                                                              "direction": "Right", "stride": 0})  # fmt: skip
    values = {"model_type": "model2vec", "architectures": ["StaticModel"], "hidden_dim": 99, "seq_length": 1000000}
    (directory / "config.json").write_text(json.dumps({**values, **config}))
    kinds = ["StaticEmbedding", *["Normalize"] * bool(config.get("normalize"))][: None if modules else 0]
    paths = {"StaticEmbedding": ".", "Normalize": "1_Normalize"}
    types = [
        {"idx": i, "name": str(i), "type": f"sentence_transformers.models.{kind}", "path": paths[kind]}
        for i, kind in enumerate(kinds)
    ]
    if modules:
        (directory / "modules.json").write_text(json.dumps(types))


def mean_of_ids(directory, vectors, normalize, longest, drops_unknown=True):
    tokenizer = pytest.importorskip("tokenizers").Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_truncation()
    found = []
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special_tokens=False).ids[:longest]
        ids = [index for index in ids if TOKENS[index] != "[UNK]" or not drops_unknown]
        mean = vectors[ids].mean(axis=0, dtype=np.float64) if ids else np.zeros(SIZE)
        found.append(mean / max(np.linalg.norm(mean), 1e-12) if normalize else mean)
    return np.array(found)


def close(vectors, expected):
    atol = np.where(np.arange(len(expected)) < len(TEXTS) - 1, 1e-6, 5e-5)  # sums of 20,000 numbers differ more
    assert np.all(np.abs(vectors - expected) <= atol[:, None])


MAPPING = np.arange(len(TOKENS)) % 7
STORED = {  # the tensors of a file, and the vectors of the tokens
    "whole": ({"embeddings": table()}, table()),
    "weighted": ({"embeddings": table(), "weights": table()[:, 0].astype(np.float64)}, table() * table()[:, :1]),
    "shared": (
        {"embeddings": table()[:7], "mapping": MAPPING, "weights": table()[:, 0].copy()},
        table()[:7][MAPPING] * table()[:, :1],
    ),
    "int8": ({"embeddings": (9 * table()).astype(np.int8)}, (9 * table()).astype(np.int8).astype(np.float32) / 9),
}


@pytest.mark.parametrize(
    ("stored", "normalize", "length", "longest"),
    [
        ("whole", False, {}, 512),
        ("shared", True, {"max_length": None}, None),
        pytest.param("weighted", True, {"max_length": LONGEST}, LONGEST, marks=pytest.mark.slow),
        pytest.param("int8", True, {"max_length": LONGEST}, LONGEST, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("modules", [True, False])
def test_model2vec(stored, normalize, length, longest, modules, tmp_path):
    tensors, vectors = STORED[stored]
    write(tmp_path, tensors, modules, **{"normalize": True} if normalize else {}, **length)
    model = BertSentenceEncoder.from_preset(tmp_path)
    assert (model.encoder.config.num_layers, model.normalize) == (0, normalize)
    found = model.encode(TEXTS)
    close(found, mean_of_ids(tmp_path, vectors, normalize, longest))
    assert not np.any(found[[1, 6, 7, 8]])  # texts without a known token


@pytest.mark.parity
@pytest.mark.parametrize("stored", ["whole", "shared"])
def test_model2vec_itself(stored, tmp_path):
    """Both ways."""
    library = pytest.importorskip("model2vec").StaticModel
    write(tmp_path, STORED[stored][0], normalize=True)
    model = BertSentenceEncoder.from_preset(tmp_path)
    expected = library.from_pretrained(tmp_path).encode(TEXTS)
    close(model.encode(TEXTS), expected)
    model.save_preset(tmp_path / "ours")
    close(library.from_pretrained(tmp_path / "ours").encode(TEXTS), expected)


# -- Tokenizers of other types, beside the library `tokenizers`, which reads the same file.


def without_special_tokens(content):
    """The file as model2vec writes it: without the tokens that no text has, but the unknown one and padding."""
    vocabulary = [token for token in content["model"]["vocab"] if token[0] not in ("<s>", "</s>", "<mask>")]
    ids = {token: index for index, (token, _) in enumerate(vocabulary)}
    added = [{**each, "id": ids[each["content"]]} for each in content["added_tokens"] if each["content"] in ids]
    model = {**content["model"], "vocab": vocabulary, "unk_id": ids["<unk>"]}
    return {**content, "added_tokens": added, "post_processor": None, "model": model}


def with_metaspace_alone(content):
    """The file as transformers 4 wrote it; with a step in a sequence of its own, and a token after the vocabulary."""
    first, last = content["normalizer"]["normalizers"], {"type": "Strip", "strip_left": False, "strip_right": True}
    spaces = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}
    steps = [{"type": "Sequence", "normalizers": first}, last, spaces]
    (*_, metaspace) = content["pre_tokenizer"]["pretokenizers"]
    new = {**content["added_tokens"][0], "id": len(content["model"]["vocab"]), "content": "<new>"}
    content = {**content, "normalizer": {"type": "Sequence", "normalizers": steps}, "pre_tokenizer": metaspace}
    return {**content, "added_tokens": [*content["added_tokens"], new]}


def with_spaces_around_punctuation(content):
    """The file as model2vec 0.6 wrote it, such as that of potion-multilingual-128M, with tokens of several words."""
    tokenizers = pytest.importorskip("tokenizers")
    content = without_special_tokens(content)
    for words in ("▁the▁good", "▁film▁,", "▁,▁the"):
        content["model"]["vocab"].append([words, -4.0])
    library = tokenizers.Tokenizer.from_str(json.dumps(content))
    spaced = [tokenizers.normalizers.Replace(sign, f" {sign} ") for sign in string.punctuation]
    spaces = tokenizers.normalizers.Replace(tokenizers.Regex(r"\s+"), " "), tokenizers.normalizers.Strip()
    library.normalizer = tokenizers.normalizers.Sequence([library.normalizer, *spaced, *spaces])
    library.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    return json.loads(library.to_str())


def unigram(change=lambda content: content, family="xlm-roberta"):
    model = {"xlm-roberta": tokenization.train_xlm_roberta, "deberta-v2": tokenization.train_deberta}[family]()
    return change(json_of_model(model, family, False, False))


def byte_pairs():
    """The file as model2vec writes it, without special tokens: no token is unknown, not even the first."""
    merges = bytepair.train(small.TEXTS, 50)
    content = small.byte_pairs(merges, add_prefix_space=True).tokenizer_json()
    tokens = [token for token in content["model"]["vocab"] if not token.startswith("<") or token == "<"]
    model = {**content["model"], "vocab": {token: index for index, token in enumerate(["Ġ", *{*tokens} - {"Ġ"}])}}
    return {**content, "added_tokens": [], "post_processor": None, "model": model}


TOKENIZERS = {
    "unigram": unigram,
    "without special tokens": lambda: unigram(without_special_tokens),
    "metaspace alone": lambda: unigram(with_metaspace_alone),
    "spaces around punctuation": lambda: unigram(with_spaces_around_punctuation),
    "bytes": lambda: unigram(family="deberta-v2"),
    "byte pairs": byte_pairs,
}
# The libraries also find special tokens in texts, and models that were trained here lack U+0000.
_OTHERS = re.compile(rf"{UNLIKE.pattern}|<s>|\[CLS\]|\0")
TEXTS_WITH_SIGNS = [
    "the good film, the film",
    "a!?b",
    "（ｘ） ⑴ … ＜a＞ `~^",
    "don't.",
    "." * 90,
    "x_y-z&<>@",
    "a<\u0338b=\u0338",
]
HOSTILE = [text for text in [*TEXTS[:-1], *UNIGRAM_TEXTS, *TEXTS_WITH_SIGNS, "good " * 150] if not _OTHERS.search(text)]


@pytest.mark.parity
@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("family", ["model2vec", "static_embedding"])
def test_other_tokenizers(kind, family, tmp_path):
    library = pytest.importorskip("tokenizers").Tokenizer.from_str(json.dumps(TOKENIZERS[kind]()))
    vectors = np.random.default_rng(0).normal(size=(library.get_vocab_size(), SIZE)).astype(np.float32)
    name = {"model2vec": "embeddings", "static_embedding": "embedding.weight"}[family]
    write(tmp_path, {name: vectors}, max_length=None)
    library.save(str(tmp_path / "tokenizer.json"))
    model = BertSentenceEncoder.from_preset(tmp_path)
    all_ids = [library.encode(text, add_special_tokens=False).ids for text in HOSTILE]
    assert model.preprocessor.tokenizer.tokenize(HOSTILE).to_list() == all_ids
    unknown = json.loads(library.to_str())["model"].get("unk_id") if family == "model2vec" else None
    ids = [[index for index in row if index != unknown] for row in all_ids]
    expected = np.array([vectors[row].mean(axis=0, dtype=np.float64) if row else np.zeros(SIZE) for row in ids])
    np.testing.assert_allclose(model.encode(HOSTILE), expected, rtol=0, atol=1e-5)
    model.save_preset(tmp_path / "ours")
    again = BertSentenceEncoder.from_preset(tmp_path / "ours")
    assert small.same(again, model)
    outputs = tf.saved_model.load(export_serving(again, tmp_path / "out")).signatures["serving_default"](
        tf.constant(HOSTILE)
    )
    np.testing.assert_allclose(outputs["embedding"], expected, rtol=0, atol=1e-5)
    arrays = ArrayPreprocessor.from_preset(tmp_path / "ours", sequence_length=None)(HOSTILE)
    packed = model.preprocessor(HOSTILE)
    assert all(np.array_equal(arrays[name], packed[name]) for name in arrays)
    if family == "model2vec":
        return
    theirs = pytest.importorskip("sentence_transformers").SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    np.testing.assert_allclose(theirs.encode(HOSTILE), expected, rtol=0, atol=1e-4)  # it sums in float32


@pytest.mark.parametrize(
    ("part", "values", "words"),
    [
        ("model", {"unk_id": 6}, ["unk_id is 6", "added_tokens", "special"]),
        ("model", {"unk_id": None}, ["unk_id is None"]),
        ("model", {"byte_fallback": True}, ["byte_fallback", "True", "False"]),
        ("normalizer", {"normalizers": []}, ["Precompiled"]),
        ("pre_tokenizer", {"type": "Metaspace", "replacement": "▁"}, ["white space", "WhitespaceSplit"]),
        ("pre_tokenizer", {"pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Digits"}]}, ["Digits"]),
    ],
)
def test_unigram_that_cannot_be(part, values, words, tmp_path):
    write(tmp_path, {"embeddings": table()})
    content = unigram()
    (tmp_path / "tokenizer.json").write_text(json.dumps({**content, part: {**content[part], **values}}))
    with error_names(ValueError, tmp_path / "tokenizer.json", *words):
        load_tokenizer(tmp_path)


@pytest.fixture(scope="module")
def static(tmp_path_factory):
    directory = tmp_path_factory.mktemp("static")
    write(directory, {"embeddings": table()}, normalize=True, max_length=LONGEST)
    return BertSentenceEncoder.from_preset(directory)


def test_round_trips(static, tmp_path):
    static.save_preset(tmp_path / "preset")
    assert small.same(BertSentenceEncoder.from_preset(tmp_path / "preset"), static)
    assert read_config(tmp_path / "preset/config.json") == static.encoder.config
    assert json.loads((tmp_path / "preset/config.json").read_text())["normalize"] is True
    static.save(tmp_path / "model.keras")
    close(keras.models.load_model(tmp_path / "model.keras").encode(TEXTS), static.encode(TEXTS))


def test_a_copy(tmp_path):
    write(tmp_path, STORED["shared"][0], normalize=True, max_length=LONGEST)
    convert(tmp_path, tmp_path / "copy")
    assert small.same(*(BertSentenceEncoder.from_preset(each) for each in (tmp_path, tmp_path / "copy")))


@pytest.mark.parity
@pytest.mark.parametrize(("folder", "longest"), [("0_StaticEmbedding", None), ("", LONGEST)])
def test_sentence_transformers(folder, longest, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    torch = pytest.importorskip("torch")
    modules = library.sentence_transformer.modules
    tokenizer = tmp_path / "tokenizer.json"
    write_tokenizer(tokenizer)
    content = pytest.importorskip("tokenizers").Tokenizer.from_file(str(tokenizer))
    if longest:
        content.enable_truncation(longest)
    embedding = modules.StaticEmbedding(content, embedding_weights=table())
    dense = modules.Dense(SIZE, 5, activation_function=torch.nn.Tanh())
    theirs = library.SentenceTransformer(modules=[embedding, dense, modules.Normalize()], device="cpu")
    theirs.save_pretrained(str(tmp_path / "theirs"), create_model_card=False)
    if folder:
        values = json.loads((tmp_path / "theirs/modules.json").read_text())
        values[0]["path"] = folder
        (tmp_path / "theirs/modules.json").write_text(json.dumps(values))
        (tmp_path / "theirs" / folder).mkdir()
        for name in ("model.safetensors", "tokenizer.json"):
            (tmp_path / "theirs" / name).rename(tmp_path / "theirs" / folder / name)
    texts = TEXTS if longest else TEXTS[:-1]  # sums of thousands of tokens differ by more than 1e-6, in float32
    expected = theirs.encode(texts)
    ours = BertSentenceEncoder.from_preset(tmp_path / "theirs")
    close(ours.encode(texts), expected)
    ours.save_preset(tmp_path / "ours")
    close(library.SentenceTransformer(str(tmp_path / "ours"), device="cpu").encode(texts), expected)
    assert small.same(BertSentenceEncoder.from_preset(tmp_path / "ours"), ours)


@pytest.mark.slow
@needs_bfloat16
def test_low_precision(static, tmp_path):
    static.save_preset(tmp_path)
    low = BertSentenceEncoder.from_preset(tmp_path, precision="bfloat16")
    np.testing.assert_allclose(low.encode(TEXTS), static.encode(TEXTS), atol=0.01)


@pytest.mark.slow
def test_a_saved_model(static, tmp_path):
    directory = export_serving(static, tmp_path / "out")
    outputs = tf.saved_model.load(directory).signatures["serving_default"](tf.constant(TEXTS))
    close(outputs["embedding"], static.encode(TEXTS))


@pytest.mark.slow
@pytest.mark.parity
@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_exports(static, runtime, tmp_path):
    pytest.importorskip("tf2onnx")
    pytest.importorskip(runtime)
    getattr(runtimes, f"export_{runtime.removesuffix('runtime')}")(static, tmp_path / "out")
    close(runtimes.load(tmp_path / "out").encode(TEXTS), static.encode(TEXTS))


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"weight": table()}, ["model.safetensors", "embeddings", "embedding.weight", "['weight']"]),
        ({"embeddings": table(), "weights": table()[:3, 0].copy()}, ["weights", "(3,)", f"({len(TOKENS)},)"]),
        ({"embeddings": table()[:3], "mapping": MAPPING}, ["mapping", "0 to 2"]),
        ({"embeddings": table()[:-1]}, ["vocabulary", len(TOKENS), len(TOKENS) - 1]),
    ],
)
def test_damaged_files(tensors, words, tmp_path):
    write(tmp_path, tensors, normalize=True)
    with error_names(ValueError, *words):
        BertSentenceEncoder.from_preset(tmp_path)


def test_what_has_no_place_is_refused(static, tmp_path):
    with error_names(ValueError, "pooling='max'", "StaticEmbedding"):
        BertSentenceEncoder(static.encoder, static.preprocessor, pooling="max").save_preset(tmp_path / "out")
    with error_names(ValueError, "num_layers", "at least 1", "embedding_norm"):
        BertConfig(num_layers=0)
    write(tmp_path, {"embeddings": table()})
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    content["model"]["type"] = "WordLevel"
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with error_names(ValueError, tmp_path / "tokenizer.json", "WordLevel", "WordPiece, BPE, Unigram"):
        load_tokenizer(tmp_path)


def test_an_encoder_without_layers(static):
    outputs = BertEncoder.from_config(static.encoder.get_config())({"input_word_ids": np.array([[3, 4, 5]])})
    assert outputs["encoder_outputs"] == []
    np.testing.assert_allclose(outputs["pooled_output"], np.mean(outputs["sequence_output"], axis=1), atol=1e-5)
