"""Learns byte pairs: merges the most frequent pairs of symbols first."""

import concurrent.futures
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from tqdm import tqdm

from keras_bert.extras import needed

T = TypeVar("T")

_LEAST_OFTEN = 2  # rarer pairs are not merged
_LONGEST_TOKEN = 60  # symbols; in UTF-8, well below TensorFlow Text's limit
_TIMES = 1000  # the most repetitions of a word in one string


def learn_pairs(
    words: Mapping[str, int], alphabet: Sequence[str], size: int
) -> tuple[list[str], list[tuple[str, str]]]:
    """Learns byte-pair encoding (Sennrich et al. 2016) with Hugging Face's `tokenizers`. It is deterministic.

    `words` has the count of each word, without spaces. `alphabet` has their one-character symbols, in ascending order.
    Returns up to `size` tokens, `alphabet` first; and the merged pairs, earliest first.
    """
    tokenizers = needed("tokenizers", "tokenizers", extra="vocab")

    def fed() -> Iterator[str]:  # the library takes no counts
        for word, count in words.items():
            for done in range(0, count, _TIMES):
                yield f"{word} " * min(count - done, _TIMES)

    learner = tokenizers.Tokenizer(tokenizers.models.BPE())
    learner.pre_tokenizer = tokenizers.pre_tokenizers.CharDelimiterSplit(" ")
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=_LEAST_OFTEN,
        initial_alphabet=list(alphabet),
        max_token_length=_LONGEST_TOKEN,
        show_progress=False,
    )
    wait_for(lambda: learner.train_from_iterator(fed(), trainer))
    model = json.loads(learner.to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].get), [tuple(pair) for pair in model["merges"]]


def wait_for(work: Callable[[], T]) -> T:
    """Runs `work` in a thread, with a clock on a terminal: C++ and Rust would block Ctrl-C until they are done."""
    future: concurrent.futures.Future[T] = concurrent.futures.Future()

    def run() -> None:
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    with tqdm(bar_format="learning tokens: {elapsed}", delay=1, disable=None) as clock:
        while not concurrent.futures.wait([future], timeout=0.2).done:
            clock.refresh()
    return future.result()
