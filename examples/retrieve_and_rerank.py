"""Retrieve and rerank: vectors find candidates in a corpus, a reranker that is trained here puts them in order.

python examples/retrieve_and_rerank.py [--train FILE --query-column question --positive-column context] [QUERY ...]

The file has questions and the texts that answer them; its texts are the corpus. Without one, both are below. It needs
the extra `search`.

1. An index of the corpus, by the vectors of a sentence encoder.
2. Hard negatives: for each question, texts that are close to it and do not answer it.
3. A reranker learns to put the answer above them. Real ones learn from ten thousand questions, and not from six.
4. A search: the index gives candidates, the reranker the best of them.
"""

import argparse
import tempfile
from pathlib import Path

import keras

from keras_bert import BertReranker
from keras_bert.data import read_columns
from keras_bert.search import TextIndex, build_index, mine_negatives
from keras_bert.training import evaluate, fine_tune

PRESET = "all-MiniLM-L6-v2"
PAIRS = [
    ("how long must I wait for a parcel?", "Orders arrive within three days."),
    ("how do I return a parcel?", "Bring it to any post office, with the label."),
    ("what does a parcel cost?", "Postage is four euros up to two kilos."),
    ("can I change the address of a parcel?", "Until it has left us: write to the help desk."),
    ("my parcel is broken", "We are sorry: send us a picture, and you get your money back."),
    ("when are you open?", "Monday to Friday, nine to five."),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("queries", nargs="*", metavar="QUERY", default=["how long must I wait for a parcel?"])
    parser.add_argument("--train", help="a CSV, TSV, JSON lines or Parquet file")
    parser.add_argument("--query-column", default="question")
    parser.add_argument("--positive-column", default="context")
    arguments = parser.parse_args()
    if arguments.train:
        names = [arguments.query_column, arguments.positive_column]
        columns = read_columns(arguments.train, text_columns=names).x
    else:
        columns = tuple(map(list, zip(*PAIRS, strict=True)))

    keras.utils.set_random_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus.txt")
        corpus.write_text("\n".join(dict.fromkeys(" ".join(text.split()) for text in columns[1])), encoding="utf-8")
        build_index(corpus, Path(folder, "index"), PRESET)
        index = TextIndex(Path(folder, "index"))

        mined = mine_negatives(*columns, preset=PRESET)
        lists = tuple(map(list, zip(*((each.query, each.positive, each.negative) for each in mined), strict=True)))
        reranker = BertReranker.from_preset(PRESET)
        recipe = {"epochs": 1, "batch_size": 16} if arguments.train else {"epochs": 15, "batch_size": 6}
        before = evaluate(reranker, lists, None)["mrr@10"]
        fine_tune(reranker, (lists, None), learning_rate=1e-4, **recipe)
        print(f"mrr@10: {before:.3f} before, {evaluate(reranker, lists, None)['mrr@10']:.3f} after")
        reranker.save_preset("saved_models/my_reranker", overwrite=True)

        for query in arguments.queries:
            print(query)
            for hit in index.search(query, top_k=3, reranker=reranker):
                print(f"  {hit['score']:.3f}  {hit['text']}")


if __name__ == "__main__":
    main()
