"""One version of a model: a SavedModel in a session, as TF Serving runs it."""

from __future__ import annotations

import os
from pathlib import Path

import grpc
import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the operations of tokenizers

from keras_bert.server.errors import ServingError
from keras_bert.server.signatures import Arrays, Signature, read_signatures

# So many runs share the cores. With one, a core idles while the other has the larger half of an operation; with many,
# requests no longer meet in batches.
RUNS_AT_A_TIME = 2

_STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}


class Model:
    """A SavedModel in memory.

    A session, not tf.saved_model.load: it is what TF Serving runs, it takes SavedModels of TensorFlow 1 as well, and
    closing it gives back all memory.

    Args:
        directory: of the SavedModel.

    Attributes:
        signatures: dict of Signature by name.
        definitions: dict of SignatureDef by name, as they are in the file.

    Raises:
        Whatever TensorFlow raises when the SavedModel is damaged.
    """

    def __init__(self, directory: Path) -> None:
        cores = os.cpu_count() or 1
        config = tf.compat.v1.ConfigProto(
            inter_op_parallelism_threads=cores, intra_op_parallelism_threads=max(1, cores // RUNS_AT_A_TIME)
        )
        config.gpu_options.allow_growth = True  # while versions are swapped, two of them share the GPU
        graph = tf.Graph()
        self._session = tf.compat.v1.Session(graph=graph, config=config)
        try:
            with graph.as_default():
                meta_graph = tf.compat.v1.saved_model.load(self._session, ["serve"], str(directory))
            graph.finalize()  # a run that added to it would leak
        except BaseException:
            self._session.close()
            raise
        self.definitions = dict(meta_graph.signature_def)
        self.signatures = read_signatures(meta_graph.signature_def)

    def run(self, signature: Signature, inputs: Arrays) -> Arrays:
        """All outputs for inputs that the signature takes. May be called from several threads at a time.

        Raises:
            ServingError: TensorFlow's, with its code.
        """
        fetches = {name: spec.tensor for name, spec in signature.outputs.items()}
        feeds = {signature.inputs[name].tensor: value for name, value in inputs.items()}
        try:
            outputs = self._session.run(fetches, feeds)
        except tf.errors.OpError as error:
            # After the first line come the places in the graph.
            raise ServingError(_STATUS_CODES[error.error_code], error.message.partition("\n")[0]) from None
        # Scalars come without an array around them.
        return {
            name: np.asarray(value, signature.outputs[name].dtype.as_numpy_dtype) for name, value in outputs.items()
        }

    def close(self) -> None:
        self._session.close()
