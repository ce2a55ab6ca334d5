"""The encoder on Keras's OpenVINO backend, which has inference only."""

import json

import numpy as np
import pytest

from keras_bert import BertEncoder

from ..support.processes import run_python

pytest.importorskip("openvino", reason="needs the extra runtimes")
pytestmark = pytest.mark.parity
IDS = [[2, 7, 9, 3], [2, 8, 3, 0]]
PROGRAM = """
import json, sys
import numpy as np
from keras_bert import BertEncoder

encoder = BertEncoder.from_preset(sys.argv[1])
ids = np.array(json.loads(sys.argv[2]), "int32")
inputs = {"input_word_ids": ids, "input_mask": (ids > 0).astype("int32"), "input_type_ids": 0 * ids}
np.save(sys.argv[3], np.array(encoder.predict(inputs, verbose=0)["sequence_output"]))
"""


def test_predict(small_preset, tmp_path):
    path = tmp_path / "hidden.npy"
    run_python(PROGRAM, small_preset, json.dumps(IDS), path, KERAS_BACKEND="openvino")
    ids = np.array(IDS, "int32")
    mask = (ids > 0).astype("int32")
    inputs = {"input_word_ids": ids, "input_mask": mask, "input_type_ids": 0 * ids}
    expected = np.array(BertEncoder.from_preset(small_preset)(inputs)["sequence_output"])
    # Where the processor has bfloat16, OpenVINO computes in it.
    np.testing.assert_allclose(np.load(path)[mask > 0], expected[mask > 0], atol=0.05)
