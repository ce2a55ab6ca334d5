"""The low precisions, for `parametrize`: a processor that lacks one skips its tests."""

import pytest

from keras_bert import processors
from keras_bert.inference import onednn

needs_bfloat16 = pytest.mark.skipif(not processors.has_bfloat16(), reason="no AVX-512")
needs_int8 = pytest.mark.skipif(not onednn.has_int8(), reason="no oneDNN")
PRECISIONS = [pytest.param("bfloat16", marks=needs_bfloat16), pytest.param("int8", marks=needs_int8)]
