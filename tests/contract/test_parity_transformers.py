"""transformers and sentence-transformers (torch), live: the same numbers, and files that either side reads."""

import csv
import itertools

import numpy as np
import pytest

from keras_bert import BertEncoder, BertPreprocessor, BertSentenceEncoder, presets

from ..support.texts import PAIRS, TEXTS

pytestmark = [pytest.mark.parity, pytest.mark.usefixtures("untraced_module")]
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

MINILM = "all-MiniLM-L6-v2"
TOLERANCE = 1e-5


@pytest.fixture(scope="module", params=[MINILM, "bert-tiny-mlm"])
def directory(request, tmp_path_factory):
    """A directory that both sides can read."""
    if request.param == MINILM:
        return presets.resolve(MINILM)
    source = request.getfixturevalue("shared_data") / "bert-tiny-mlm"
    # Its file has no pooler: transformers draws one at random, and what it then saves, both read.
    target = tmp_path_factory.mktemp("bert-tiny-with-pooler")
    torch.manual_seed(0)
    transformers.BertModel.from_pretrained(source).save_pretrained(target)
    transformers.BertTokenizer.from_pretrained(source).save_pretrained(target)
    return target


@pytest.mark.parametrize(("texts", "sequence_length"), [(TEXTS, None), (PAIRS, 160)], ids=["mixed lengths", "pairs"])
def test_outputs(directory, texts, sequence_length):
    preprocessor = BertPreprocessor.from_preset(directory, sequence_length=sequence_length)
    _same_ids(preprocessor, directory, texts)
    inputs = preprocessor(_columns(texts))
    outputs = BertEncoder.from_preset(directory)(inputs)
    theirs = _run(_bert(directory), inputs)
    real = np.asarray(inputs["input_mask"]).astype(bool)
    _close(np.asarray(outputs["sequence_output"])[real], theirs.last_hidden_state.numpy()[real])
    _close(outputs["pooled_output"], theirs.pooler_output.numpy())
    for ours, state in zip(outputs["encoder_outputs"], theirs.hidden_states[1:], strict=True):
        _close(np.asarray(ours)[real], state.numpy()[real])


def test_attention_scores(directory):
    inputs = BertPreprocessor.from_preset(directory, sequence_length=None)(TEXTS)
    ours = BertEncoder.from_preset(directory).attention_scores(inputs)
    # The default attention of transformers does not say what its weights are.
    theirs = _run(_bert(directory, attn_implementation="eager"), inputs, output_attentions=True).attentions
    rows = np.asarray(inputs["input_mask"]).astype(bool)[:, None, :, None]
    for our_layer, their_layer in zip(ours, theirs, strict=True):
        _close(np.asarray(our_layer) * rows, their_layer.numpy() * rows)


def test_transformers_reads_what_we_write(directory, tmp_path):
    encoder = BertEncoder.from_preset(directory)
    preprocessor = BertPreprocessor.from_preset(directory, sequence_length=None)
    for weight in encoder.weights:  # trained a little, so that these are not the numbers of the original file
        weight.assign(weight * 1.01)
    encoder.save_preset(tmp_path)
    preprocessor.save_preset(tmp_path)

    model, report = transformers.AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert {name: names for name, names in report.items() if names} == {}
    inputs = preprocessor(TEXTS)
    _close(encoder(inputs)["pooled_output"], _run(model.eval(), inputs).pooler_output.numpy())
    for texts in (TEXTS, PAIRS):
        _same_ids(preprocessor, tmp_path, texts)


@pytest.fixture(scope="module")
def sentence_transformer():
    sentence_transformers = pytest.importorskip("sentence_transformers")
    return sentence_transformers.SentenceTransformer(str(presets.resolve(MINILM)), device="cpu")


@pytest.fixture(scope="module")
def sentence_encoder():
    return BertSentenceEncoder.from_preset(MINILM)


def test_vectors(sentence_encoder, sentence_transformer):
    texts = [*TEXTS, "", "word " * 400]  # empty, and longer than the 256 tokens that the model is for
    with pytest.warns(UserWarning, match="texts truncated to 256 tokens"):
        vectors = sentence_encoder.encode(texts)
    _close(vectors, sentence_transformer.encode(texts))


def test_sentence_transformers_reads_what_we_write(sentence_encoder, sentence_transformer, tmp_path):
    sentence_encoder.save_preset(tmp_path)
    again = type(sentence_transformer)(str(tmp_path), device="cpu")
    assert again.max_seq_length == sentence_transformer.max_seq_length
    texts = [*TEXTS, "word " * 400]
    _close(again.encode(texts), sentence_transformer.encode(texts))


def test_sts_benchmark(sentence_encoder, sentence_transformer, shared_data):
    """Spearman's correlation with what people said, in points: the same to a tenth of a point."""
    stats = pytest.importorskip("scipy.stats")
    with (shared_data / "stsb/stsb-en-dev.csv").open(encoding="utf-8", newline="") as file:
        first, second, scores = zip(*itertools.islice(csv.reader(file), None, None, 7), strict=True)

    def correlation(encode):
        cosines = np.sum(encode(list(first)) * encode(list(second)), axis=1)
        return 100 * stats.spearmanr(cosines, [float(score) for score in scores]).statistic

    assert len(scores) == 215
    expected = correlation(sentence_transformer.encode)
    assert expected > 85  # both would agree on nonsense, too
    assert correlation(sentence_encoder.encode) == pytest.approx(expected, abs=0.1)


def _bert(directory, **kwargs):
    return transformers.BertModel.from_pretrained(directory, **kwargs).eval()


def _run(model, inputs, **kwargs):
    names = {"input_ids": "input_word_ids", "attention_mask": "input_mask", "token_type_ids": "input_type_ids"}
    arguments = {theirs: torch.tensor(np.asarray(inputs[ours])).long() for theirs, ours in names.items()}
    with torch.no_grad():
        return model(**arguments, output_hidden_states=True, **kwargs)


def _columns(texts):
    """Pairs -> a tuple of two lists; texts stay as they are."""
    return texts if isinstance(texts[0], str) else tuple(list(column) for column in zip(*texts, strict=True))


def _same_ids(preprocessor, directory, texts):
    columns = _columns(texts)
    ours = preprocessor(columns)
    length = {"padding": "longest"}
    if preprocessor.sequence_length:
        length = {"padding": "max_length", "max_length": preprocessor.sequence_length}
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    # MiniLM's tokenizer.json asks for cutting at 128 and padding to it.
    columns = columns if isinstance(columns, tuple) else (columns,)
    theirs = tokenizer(*columns, **length, truncation=False, return_tensors="np")
    names = {"input_word_ids": "input_ids", "input_mask": "attention_mask", "input_type_ids": "token_type_ids"}
    for our_name, their_name in names.items():
        np.testing.assert_array_equal(ours[our_name], theirs[their_name])


def _close(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE)
