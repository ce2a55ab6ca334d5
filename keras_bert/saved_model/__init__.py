"""SavedModels: exports for TF Hub and TF Serving, and HubLayer, which calls TF Hub's SavedModels."""

from keras_bert.saved_model.check import check_serving
from keras_bert.saved_model.compare import Comparison, Difference, compare
from keras_bert.saved_model.hub_export import export_encoder, export_preprocessor
from keras_bert.saved_model.hub_layer import HubLayer
from keras_bert.saved_model.serving import export_serving

__all__ = [
    "Comparison",
    "Difference",
    "HubLayer",
    "check_serving",
    "compare",
    "export_encoder",
    "export_preprocessor",
    "export_serving",
]
