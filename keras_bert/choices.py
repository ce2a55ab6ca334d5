"""The names that arguments and options accept. This module imports nothing, for a quick `--help`."""

OBJECTIVES = ("next_sentence", "sentence_order", "sentences")  # of pre-training, in addition to masked tokens
LAYOUTS = ("prose", "sentences")  # of a corpus
MASKED_UNITS = ("token", "word", "span")
VOCABULARIES = ("wordpiece", "bytepair", "sentencepiece")

SENTENCE_LOSSES = (
    *("multiple_negatives_ranking", "cosent", "angle"),
    *("cosine_similarity", "contrastive", "triplet", "margin_mse"),
)
RANKING_LOSSES = ("binary_cross_entropy", "lambda", "list_net", "margin_mse")

PRECISIONS = ("float32", "bfloat16", "int8")  # of inference
STORED = ("float32", "int8")  # vectors of an index
DTYPES = ("float32", "mixed_bfloat16", "mixed_float16")  # of training
STRATEGIES = ("auto", "one", "mirrored", "multi_worker", "tpu")

# Runtime -> the model's file in the directory of an export.
RUNTIMES = {"onnx": "onnx/model.onnx", "openvino": "openvino/openvino_model.xml", "litert": "model.tflite"}
