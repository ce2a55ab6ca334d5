"""Texts a second, from strings to unit vectors: all-MiniLM-L6-v2, beside other ways of running it.

python benchmarks/encode.py [--texts 1500] [--rounds 5] [--only keras_bert "ONNX Runtime"] [--low-precision | --static]

With --low-precision, the contestants are keras_bert in float32, bfloat16 and int8, ONNX Runtime in float32 and int8,
and OpenVINO in bfloat16 and int8 (by NNCF). Beside the speed it prints the cosine to keras_bert's float32 vectors, and
Spearman's correlation on the pairs of STS-B's development set. --only names contestants beside keras_bert. The texts
are sentences of STS-B; slow contestants get a part. With --static, the contestants beside MiniLM are static vectors
that `static_of` makes of it, here, in model2vec and in sentence-transformers.

Every contestant that has settings (tokens or texts a batch, threads) first tries them all and competes with its best.
Those that are not installed (pip install 'keras-bert-models[bench]') are left out.
"""

import contextlib
import functools
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from _measure import MINILM, cores, heading, interleave, options, parse, rate, ratios, run, sentences, stsb_rows, table
from _minilm_onnx import LONGEST, Run, inputs, onnx_fused, onnx_int8, onnx_model, session, tokenizer, vectors

from keras_bert import BertEncoder, BertPreprocessor, BertSentenceEncoder, presets
from keras_bert.answers.metrics import correlation
from keras_bert.formats import read_config
from keras_bert.training import static_of

PARTS = ("dev", "train")  # of STS-B
PEERS = ["tensorflow", "keras", "torch", "onnxruntime", "openvino", "sentence-transformers", "tokenizers", "keras-hub"]
PEERS += ["model2vec"]

Encode = Callable[[list[str]], np.ndarray]  # texts -> float32 [texts, hidden], of length 1


def keras_bert(precision: str = "float32") -> dict[str, Encode]:
    model = BertSentenceEncoder.from_preset(MINILM, precision=precision)
    return {
        f"{tokens} tokens a batch": functools.partial(model.encode, batch_tokens=tokens, progress=False)
        for tokens in (1024, 2048, 4096)
    }


def onnx_runtime(lower: bool = False) -> dict[str, Encode]:
    """One batch on all cores, or as many batches as there are cores; its own fused operators, or its plain ones."""
    if lower:
        graphs = {"fused int8": onnx_int8(), "plain int8": onnx_int8(fused=False)}
    else:
        graphs = {"plain": onnx_model(), "fused": onnx_fused()}
    encoders = {}
    for (graph, path), in_flight in itertools.product(graphs.items(), {1, cores()}):
        run = session(path, cores() // in_flight)
        for tokens in (256, 512):
            name = f"{graph} graph, {tokens} tokens a batch, {in_flight} in flight"
            encoders[name] = length_sorted(run, tokens, in_flight)
    return encoders


def openvino(precision: str = "f32") -> dict[str, Encode]:
    """In "f32", "bf16" or "int8". In the last one, what is not int8 is computed in either of the others."""
    import openvino

    model = openvino.Core().read_model(onnx_model())
    others = [precision]
    if precision == "int8":
        import nncf

        tokens = tokenizer().encode_batch(sentences(300, *PARTS))
        calibration = nncf.Dataset([inputs([each.ids]) for each in tokens])
        model = nncf.quantize(model, calibration, model_type=nncf.ModelType.TRANSFORMER, subset_size=300)
        others = ["f32", "bf16"]
    encoders = {}
    for (hint, in_flight), other in itertools.product((("LATENCY", 1), ("THROUGHPUT", cores())), others):
        # On some processors it would otherwise compute in bfloat16.
        settings = {"INFERENCE_PRECISION_HINT": other, "PERFORMANCE_HINT": hint}
        compiled = openvino.Core().compile_model(model, "CPU", settings)
        requests = [compiled.create_infer_request() for _ in range(in_flight)]

        def run(inputs, free=requests):
            request = free.pop()
            hidden = request.infer(inputs)[0].copy()
            free.append(request)
            return hidden

        for tokens in (256, 512, 1024):
            name = f"{hint}, {tokens} tokens a batch" + (f", beside {other}" if len(others) > 1 else "")
            encoders[name] = length_sorted(run, tokens, in_flight)
    return encoders


def sentence_transformers() -> dict[str, Encode]:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(presets.resolve(MINILM)), device="cpu")
    return {f"batch_size {size}": functools.partial(model.encode, batch_size=size) for size in (8, 16, 32, 64)}


@functools.cache
def static_vectors() -> str:
    """A directory with static vectors of MiniLM."""
    directory = tempfile.mkdtemp()
    static_of(BertSentenceEncoder.from_preset(MINILM)).save_preset(directory)
    return directory


def static() -> dict[str, Encode]:
    model = BertSentenceEncoder.from_preset(static_vectors())
    return {
        f"{tokens} tokens a batch": functools.partial(model.encode, batch_tokens=tokens, progress=False)
        for tokens in (1024, 4096, 16384)
    }


def static_of_model2vec() -> dict[str, Encode]:
    from model2vec import StaticModel

    model = StaticModel.from_pretrained(static_vectors())
    return {f"batch_size {size}": functools.partial(model.encode, batch_size=size) for size in (256, 1024)}


def static_of_sentence_transformers() -> dict[str, Encode]:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(static_vectors(), device="cpu")
    return {f"batch_size {size}": functools.partial(model.encode, batch_size=size) for size in (32, 256, 1024)}


def keras_bert_128() -> dict[str, Encode]:
    preprocessor = BertPreprocessor.from_preset(MINILM, sequence_length=128)
    return padded(preprocessor, BertEncoder.from_preset(MINILM), "input_mask")


def keras_hub_of(**length) -> dict[str, Encode]:
    import keras_hub

    directory = presets.resolve(MINILM)
    tokenizer = keras_hub.models.BertTokenizer(str(directory / "vocab.txt"), lowercase=True)
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(tokenizer, **length)
    backbone = keras_hub.models.BertBackbone.from_preset(str(directory))
    return padded(preprocessor, backbone, "padding_mask")


# Name -> what builds it, and how many texts it gets for each that keras_bert gets (the slow ones fewer).
CONTESTANTS = {
    "keras_bert": (keras_bert, 1),
    "ONNX Runtime": (onnx_runtime, 1),
    "OpenVINO": (openvino, 1),
    "sentence-transformers": (sentence_transformers, 1 / 2),
    "keras_bert, padded to 128": (keras_bert_128, 1 / 8),
    "KerasHub, padded to 128": (functools.partial(keras_hub_of, sequence_length=128), 1 / 8),
    "KerasHub, as it comes (512)": (keras_hub_of, 1 / 32),
}

# Beside keras_bert in bfloat16 or int8.
LOWER = {
    "keras_bert": (keras_bert, 1),
    "keras_bert, bfloat16": (functools.partial(keras_bert, "bfloat16"), 1),
    "keras_bert, int8": (functools.partial(keras_bert, "int8"), 1),
    "ONNX Runtime": (onnx_runtime, 1),
    "ONNX Runtime, int8": (functools.partial(onnx_runtime, lower=True), 1),
    "OpenVINO, bfloat16": (functools.partial(openvino, "bf16"), 1),
    "OpenVINO, int8": (functools.partial(openvino, "int8"), 1),
}

# Static vectors, beside the model that they are of.
STATIC = {
    "keras_bert": (keras_bert, 1),
    "keras_bert, static": (static, 1),
    "model2vec, static": (static_of_model2vec, 1),
    "sentence-transformers, static": (static_of_sentence_transformers, 1),
}


def length_sorted(run: Run, batch_tokens: int, in_flight: int) -> Encode:
    """A text encoder around `run`: batches of similar length, as ours."""
    encode_batch = tokenizer().encode_batch

    def encode(texts):
        tokens = [encoding.ids for encoding in encode_batch(texts)]
        found = np.empty((len(texts), 384), np.float32)

        def encode_rows(rows):
            found[rows] = vectors(run, [tokens[row] for row in rows])

        batches = [[]]
        for row in sorted(range(len(texts)), key=lambda row: -len(tokens[row])):
            if batches[-1] and (len(batches[-1]) + 1) * len(tokens[batches[-1][0]]) > batch_tokens:
                batches.append([])
            batches[-1].append(row)
        with ThreadPoolExecutor(in_flight) as pool:
            list(pool.map(encode_rows, batches))
        return found

    return encode


def padded(preprocessor, encoder, mask_name: str, batch_size: int = 32) -> dict[str, Encode]:
    """Text encoders of Keras parts that pad every text to one length, in batches in the order given."""
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def vectors(texts):
        inputs = preprocessor(texts)
        mask = tf.cast(inputs[mask_name], tf.float32)[..., None]  # [batch, seq_length, 1]
        return tf.nn.l2_normalize(tf.reduce_sum(encoder(inputs)["sequence_output"] * mask, axis=1), axis=1)

    def encode(texts):
        starts = range(0, len(texts), batch_size)
        return np.concatenate([vectors(tf.constant(texts[i : i + batch_size])).numpy() for i in starts])

    return {f"{batch_size} texts a batch": encode}


def sgemm() -> dict[str, Callable[[], float]]:
    """What each library reaches in large float32 products, in GFLOP/s on all cores: the best of a few shapes."""

    def best(matmul, matrix):
        # Square, and the two of a feed-forward layer over many tokens.
        shapes = [(2048, 2048, 2048), (4096, 384, 1536), (4096, 1536, 384)]
        pairs = [(matrix(n, k), matrix(k, m), 2e-9 * n * k * m) for n, k, m in shapes]
        return lambda: max(rate(lambda a=a, b=b: matmul(a, b), work) for a, b, work in pairs * 5)

    import tensorflow as tf

    compiled = tf.function(tf.matmul)
    found = {"sgemm, TensorFlow": best(lambda a, b: compiled(a, b).numpy(), lambda n, k: tf.random.normal([n, k]))}
    try:
        import torch
    except ImportError:
        return found
    return found | {"sgemm, torch": best(torch.matmul, torch.randn)}


def spearman(encode: Encode) -> float:
    """On the pairs of STS-B's development set, in percent."""
    rows = stsb_rows("dev")
    first, second = (encode([row[column] for row in rows]) for column in (0, 1))
    return 100 * correlation([float(row[2]) for row in rows], (first * second).sum(axis=1).tolist())["spearman"]


def flops(lengths: np.ndarray) -> float:
    """Of the encoder, on real tokens: 2 for each dense weight and token, and the two products of attention."""
    config = read_config(presets.resolve(MINILM) / "config.json")
    width, inner = config.hidden_size, config.intermediate_size
    dense = 2 * (4 * width**2 + 2 * width * inner) * lengths.sum()
    return float(config.num_layers * (dense + 4 * width * (lengths.astype(np.float64) ** 2).sum()))


def tune(encoders: dict[str, Encode], texts: list[str]) -> tuple[str, Encode]:
    """The fastest of the settings on some texts, after one warm-up."""
    if len(encoders) == 1:
        return next(iter(encoders.items()))
    seconds = {}
    for setting, encode in encoders.items():
        encode(texts)
        time.sleep(0.1)
        seconds[setting] = min(1 / rate(functools.partial(encode, texts), 1) for _ in range(2))
    best = min(seconds, key=seconds.get)
    return best, encoders[best]


def main() -> None:
    parser = options(
        __doc__, texts=1500, rounds=5, only=list(CONTESTANTS | LOWER | STATIC), low_precision=False, static=False
    )
    arguments = parse(parser, texts=32, rounds=1, only=["sentence-transformers"])
    texts = sentences(arguments.texts, *PARTS)
    count = len(texts)
    heading(PEERS)
    contestants = STATIC if arguments.static else LOWER if arguments.low_precision else CONTESTANTS
    tokens = BertPreprocessor.from_preset(MINILM).tokenizer.tokenize(texts)
    lengths = np.minimum(tokens.row_lengths().numpy() + 2, LONGEST)
    gigaflops = flops(lengths) / 1e9 / count  # a text

    jobs, settings, found, parts, scores, missing = {}, {}, {}, {}, {}, []
    for name, (build, share) in contestants.items():
        if name not in ("keras_bert", *arguments.only):
            continue
        try:
            with contextlib.redirect_stdout(sys.stderr):  # NNCF shows progress
                encoders = build()
        except ImportError as error:
            missing.append(f"{name} (no {error.name})")
            continue
        part = texts[:: round(1 / share)]
        print(f"{name}: {len(encoders)} settings, {len(part)} texts", file=sys.stderr, flush=True)
        settings[name], encode = tune(encoders, texts[:: max(1, count // 400)])
        found[name], parts[name] = encode(part), part
        scores[name] = "" if contestants is CONTESTANTS else f"{spearman(encode):.2f}"
        jobs[name] = functools.partial(rate, functools.partial(encode, part), len(part))
    ceilings = sgemm()
    rates = interleave(jobs | ceilings, arguments.rounds)

    theirs = ("sentence-transformers", "model2vec, static", "keras_bert")
    reference = next(name for name in theirs if name in jobs)
    by_text = dict(zip(parts[reference], found[reference], strict=True))
    ceiling = max(ceilings, key=lambda name: statistics.median(rates[name]))
    print(f"{count} texts, {lengths.mean():.1f} tokens each with [CLS] and [SEP]; {gigaflops:.3f} GFLOP a text on them")
    rows = []
    for name in jobs:
        both = [(one, by_text[text]) for text, one in zip(parts[name], found[name], strict=True) if text in by_text]
        both = [(one, other) for one, other in both if one.size == other.size]  # MiniLM's have more values
        difference = max((float(np.abs(one - other).max()) for one, other in both), default=0)
        cosines = [float(one @ other) for one, other in both] or [0]
        median = statistics.median(rates[name])
        share = statistics.median(one * gigaflops / most for one, most in zip(rates[name], rates[ceiling], strict=True))
        same = [f"{difference:.1e}", f"{statistics.mean(cosines):.4f}", f"{min(cosines):.3f}"] if both else [""] * 3
        speed = [f"{median:.0f}", ratios(rates[name], rates["keras_bert"]), f"{share:.0%}"]
        rows.append([name, *speed, *same, scores[name], len(parts[name]), settings[name]])
    columns = "contestant, texts/s, ratio (min..max), of sgemm, difference, cosine, worst cosine, STS-B, texts, setting"
    table(columns.split(", "), rows)
    print(f"- ratio: to keras_bert, within each round; median of {arguments.rounds} rounds")
    print(f"- difference: the largest between elements of the vectors and those of {reference}")
    print("- cosine: to the same, the mean and the worst; STS-B: Spearman's correlation on its development set, in %")
    print("  (KerasHub's BERT has the tanh approximation of GELU, and its tokenizer splits a few texts otherwise)")
    for name in ceilings:
        speeds = rates[name]
        print(f"- {name}: {statistics.median(speeds):.0f} GFLOP/s ({min(speeds):.0f}..{max(speeds):.0f})")
    print(f"- of sgemm: FLOP on real tokens a second, as a share of {ceiling}'s")
    if missing:
        print(f"- left out, not installed: {', '.join(missing)}")


if __name__ == "__main__":
    run(main)
