"""What is not the encoder in a call on many texts: the processor time of each verb, beside that of its encoder alone.

python benchmarks/many_texts.py [classify rank tag answer encode embed index] [--texts 20000] [--data DIR]

The verbs run on sentences of SST-2 (`rank`: each beside one query), WNUT-17 (`tag`) and questions of SQuAD (`answer`: a
question counts as ten texts), all with all-MiniLM-L6-v2. `embed` and `index` read and write files. Then the encoder
alone runs on the same batches, tokenized and packed before. The times are those of all threads. The data lies in
../shared/data beside the repository, or in --data.
"""

import argparse
import functools
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
from _finetune_tasks import TASKS, some
from _measure import DATA, MINILM, heading, one_of, options, parse, run, table

from keras_bert import BertClassifier, BertQuestionAnswerer, BertReranker, BertSentenceEncoder, BertTokenClassifier
from keras_bert.answers.by_length import rows_by_length
from keras_bert.embedding import embed_files
from keras_bert.search import build_index
from keras_bert.tasks.base.by_length import _BATCHES_IN_FLIGHT, GraphByLength

# Verb -> the number of its token segments that are packed into a row; the others say where words or windows begin.
PACKED = {"classify": 1, "rank": 2, "tag": 1, "answer": 2, "encode": 1, "embed": 1, "index": 1}

Recorded = list[tuple[list[tf.RaggedTensor], list]]  # token segments, and the rows of each batch


def verbs(folder: Path, workspace: Path) -> dict[str, Callable[[], tuple[object, Callable[[int], object]]]]:
    """Maps each verb to a function that makes a model, and the call of the verb on a number of texts."""

    all_sentences = TASKS["sst2"].read(folder, "train")

    @functools.cache
    def sentences(count: int) -> list[str]:
        return some(all_sentences, count).x

    def classify():
        model = BertClassifier.from_preset(MINILM, labels=["bad", "good"])
        return model, lambda count: model.classify(sentences(count), progress=False)

    def rank():
        model = BertReranker.from_preset(MINILM)
        return model, lambda count: model.rank("a film that is worth its time", sentences(count), progress=False)

    def tag():
        model = BertTokenClassifier.from_preset(MINILM, labels=["O", "B-x", "I-x"])
        words = TASKS["wnut17"].read(folder, "train").x
        return model, lambda count: model.tag((words * (count // len(words) + 1))[:count], progress=False)

    def answer():
        model, examples = BertQuestionAnswerer.from_preset(MINILM), TASKS["squad"].read(folder, "dev")

        def call(count: int) -> object:
            chosen = some(examples, count // 10)
            return model.answer(*chosen.x, progress=False)

        return model, call

    def encode():
        model = BertSentenceEncoder.from_preset(MINILM)
        return model, lambda count: model.encode(sentences(count), progress=False)

    def of_file(work: Callable[[Path, Path, str], object]):
        def call(count: int) -> object:
            file = workspace / f"{work.__name__}-{count}.csv"
            file.write_text("\n".join(["text", *(f'"{text}"' for text in sentences(count))]) + "\n")
            return work(file, file.with_suffix(""), MINILM)

        return lambda: (BertSentenceEncoder.from_preset(MINILM), call)

    def embed(file: Path, directory: Path, preset: str) -> object:
        return embed_files([file], directory, preset, progress=False)

    def index(file: Path, directory: Path, preset: str) -> object:
        return build_index(file, directory, preset, progress=False)

    found = {each.__name__: each for each in (classify, rank, tag, answer, encode)}
    return found | {each.__name__: of_file(each) for each in (embed, index)}


def processor_seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def recorded(work: Callable[[], object]) -> tuple[float, float, Recorded]:
    """Runs a verb: the seconds in all, those of tokenization, and the batches of the model."""
    batches: Recorded = []
    spent = []
    compute, tokenize = GraphByLength.compute, GraphByLength.tokenize

    def record(self, segments, lengths, batch_tokens, bar, **options):
        batches.append((segments, rows_by_length(lengths, batch_tokens)))
        return compute(self, segments, lengths, batch_tokens, bar, **options)

    def clock(self, *arguments):
        begin = time.process_time()
        segments = tokenize(self, *arguments)
        spent.append(time.process_time() - begin)
        return segments

    GraphByLength.compute, GraphByLength.tokenize = record, clock
    try:
        seconds = processor_seconds(work)
    finally:
        GraphByLength.compute, GraphByLength.tokenize = compute, tokenize
    return seconds, sum(spent), batches


def encoder_seconds(model: object, packed: int, batches: Recorded) -> float:
    """Runs the encoder alone on the batches of a verb, as many at a time."""
    packed_rows = (
        model.preprocessor.pack([tf.gather(segment, rows) for segment in segments[:packed]])
        for segments, groups in batches
        for rows in groups
    )
    # With windows, [batch, windows, seq_length]: here, each row is a window.
    inputs = [{name: tf.reshape(ids, [-1, ids.shape[-1]]) for name, ids in each.items()} for each in packed_rows]
    signature = [{name: tf.TensorSpec([None, None], tf.int32) for name in inputs[0]}]
    graph = tf.function(lambda x: model.encoder(x)["sequence_output"], input_signature=signature, autograph=False)
    graph(inputs[0])

    def encode() -> None:
        with ThreadPoolExecutor(_BATCHES_IN_FLIGHT) as pool:
            list(pool.map(graph, inputs))

    return processor_seconds(encode)


def rows(arguments: argparse.Namespace) -> Iterator[list[object]]:
    with tempfile.TemporaryDirectory() as workspace:
        known = verbs(arguments.data, Path(workspace))
        for verb in arguments.verbs:
            model, call = known[verb]()
            call(min(200, arguments.texts // 2))  # imports and traces
            seconds, tokenization, batches = recorded(functools.partial(call, arguments.texts))
            encoder = encoder_seconds(model, PACKED[verb], batches)
            other = 100 * (seconds - encoder) / seconds
            yield [verb, f"{seconds:.1f}", f"{encoder:.1f}", f"{other:.1f}%", f"{100 * tokenization / seconds:.1f}%"]


def main() -> None:
    parser = options(__doc__, texts=20_000, data=DATA)
    parser.add_argument("verbs", nargs="*", type=one_of(PACKED), default=list(PACKED), help=", ".join(PACKED))
    arguments = parse(parser, texts=100, verbs=["classify", "index"])
    heading(["tensorflow", "keras"])
    print(f"{arguments.texts:,} texts, {MINILM}")
    table(("verb", "processor seconds", "its encoder alone", "other", "of it tokenization"), rows(arguments))


if __name__ == "__main__":
    run(main)
