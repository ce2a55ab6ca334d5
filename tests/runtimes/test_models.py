"""An export is a model: every task answers in another runtime as in Keras, by its verb and to a server."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.runtimes import export_onnx, export_openvino, load

from ..support.tasks import CASES

pytest.importorskip("tf2onnx", reason="needs the extra runtimes")
pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")
pytestmark = [pytest.mark.parity, pytest.mark.usefixtures("untraced_module")]

EXPORTS = {"onnx": export_onnx, "openvino": export_openvino}
HOSTILE = [
    *("", " ", "\t\n", "\u3000", "film\u00a0film", "FILM Film fIlM", "...!?", "a" * 300, "film " * 80, "[MASK] [CLS]"),
    *("Zoë naïve İstanbul ß", "ﬁlm ½ ²", "\u0301film", "f\u0301i\u0308lm", "фильм", "فيلم", "don't 3.5% U.S. $x"),
    *(
        "映画はよかった",
        "ภาพยนตร์",
        "👍🏽👨\u200d👩\u200d👧",
        "film\x00film",
        "\ufeffgood",
        "good\u200bfilm",
        "a\u2028b",
        "\U0010ffff",
    ),
]


# The same code reads the outputs of both runtimes, so OpenVINO runs only the tasks whose outputs are read differently.
IN_BOTH = ("classes", "words of a CRF", "questions", "masks", "vectors", "weights of tokens")
PAIRS = [(runtime, name) for name in CASES for runtime in EXPORTS if runtime == "onnx" or name in IN_BOTH]


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def both(request, tmp_path_factory):
    runtime, name = request.param
    case = CASES[name]
    model = case.model()
    directory = tmp_path_factory.mktemp("export")
    EXPORTS[runtime](model, directory)
    return case, model, load(directory)


def close(one, other):
    """Compares answers: numbers within 1e-4, the rest exactly."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        one, other = [*one.values()], [other[name] for name in one]
    if isinstance(one, list | tuple):
        assert len(one) == len(other)
        for each in zip(one, other, strict=True):
            close(*each)
    elif isinstance(one, float | np.ndarray | np.generic):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-4)
    else:
        assert one == other


def test_answers_are_those_of_keras(both):
    case, model, export = both
    close(case.ask(model), case.ask(export))
    one = [column[0] for column in case.columns]
    close(case.ask(model, *one), case.ask(export, *one))
    none = [[] for _ in case.columns]
    close(case.ask(model, *none), case.ask(export, *none))


@pytest.mark.filterwarnings("ignore:(texts|pairs|truncated)")
def test_answers_to_hostile_texts(both):
    case, model, export = both
    if case.verb in ("fill", "choose", "answer"):
        pytest.skip("these texts have no mask, no choices, no question")
    texts = [[text.split(" ") for text in HOSTILE] if case.verb == "tag" else HOSTILE]
    columns = texts * len(case.columns)
    close(case.ask(model, *columns), case.ask(export, *columns))


def test_a_server_gets_what_the_saved_model_answers(both):
    case, model, export = both
    if not hasattr(model, "serve"):
        pytest.skip("no signature")
    texts = [[" ".join(each) if isinstance(each, list) else each for each in column] for column in case.columns]
    if case.verb == "choose":
        texts = [texts[0], [each[0] for each in case.columns[1]]]
    for name, signature in export.signatures.items():
        columns = [*texts, texts[0][::-1]][: len(signature.inputs)]
        serve = getattr(model, "serve_more", {}).get(name, model.serve)
        expected = {name: each.numpy() for name, each in serve(*map(tf.constant, columns)).items()}
        arrays = zip(signature.inputs, columns, strict=True)
        inputs = {name: np.array([text.encode() for text in column], object) for name, column in arrays}
        found = export.serve(name, inputs)
        assert found.keys() == signature.outputs.keys()
        for output, values in found.items():
            assert signature.outputs[output].dtype == values.dtype
            assert signature.outputs[output].accepts(values.shape)
            close(expected[output].tolist(), values.tolist())
    assert {*signature.outputs} == {*expected}
