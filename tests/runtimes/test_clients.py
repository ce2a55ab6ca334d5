"""Clients that look for files and names of their own: sentence-transformers and optimum."""

import numpy as np
import pytest

from keras_bert import BertClassifier, BertSentenceEncoder
from keras_bert.runtimes import export_onnx, export_openvino

from ..support import small

pytest.importorskip("tf2onnx", reason="needs the extra runtimes")
pytest.importorskip("optimum.onnxruntime", reason="needs optimum, which needs an older transformers")
pytestmark = pytest.mark.parity
TEXTS = ["The film was very good!", "dull music", "she loved watching it and he hated it"]


@pytest.mark.parametrize(("export", "backend"), [(export_onnx, "onnx"), (export_openvino, "openvino")])
def test_sentence_transformers(export, backend, tmp_path):
    from sentence_transformers import SentenceTransformer

    if backend == "openvino":
        pytest.importorskip("optimum.intel", reason="needs optimum-intel")
    model = BertSentenceEncoder(small.encoder(), small.preprocessor())
    export(model, tmp_path / "out")
    vectors = SentenceTransformer(str(tmp_path / "out"), backend=backend).encode(TEXTS)
    # Where the processor has bfloat16, OpenVINO computes in it.
    np.testing.assert_allclose(vectors, model.encode(TEXTS), atol={"onnx": 1e-4, "openvino": 1e-2}[backend])


def test_optimum(tmp_path):
    from optimum.onnxruntime import ORTModelForSequenceClassification
    from transformers import AutoTokenizer

    model = small.task(BertClassifier, labels=["good", "bad"])
    export_onnx(model, tmp_path / "out")
    theirs = ORTModelForSequenceClassification.from_pretrained(tmp_path / "out")
    inputs = AutoTokenizer.from_pretrained(tmp_path / "out")(TEXTS, padding=True, return_tensors="pt")
    np.testing.assert_allclose(theirs(**inputs).logits.numpy(), model.predict(TEXTS, verbose=0), atol=1e-4)
    assert theirs.config.id2label == {0: "good", 1: "bad"}
