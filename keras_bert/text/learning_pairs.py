"""Learns byte pairs: counts of words -> tokens, by merging the most frequent pairs of symbols first."""

import concurrent.futures
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")

# Pairs that occur less often are not merged.
_LEAST_OFTEN = 2
# The most symbols in a token; in UTF-8, well below TensorFlow Text's limit.
_LONGEST_TOKEN = 60
# The most repetitions of a word in one string.
_TIMES = 1000


def learn_pairs(
    words: Mapping[str, int], alphabet: Sequence[str], size: int
) -> tuple[list[str], list[tuple[str, str]]]:
    """Byte-pair encoding (Sennrich et al. 2016), by Hugging Face's `tokenizers`. The same words give the same tokens.

    Args:
        words: the count of each. No word has a space in it.
        alphabet: the symbols, each one character, in ascending order; words are made of them.
        size: the number of tokens, the alphabet included; fewer if the words have no more.

    Returns:
        The tokens, `alphabet` first; and the pairs that were merged, earliest first.

    Raises:
        ImportError: `tokenizers` is not installed.

    Example:
        >>> learn_pairs({"hug": 10, "pug": 5, "pun": 12}, ["g", "h", "n", "p", "u"], 8)
        (['g', 'h', 'n', 'p', 'u', 'pu', 'pun', 'hu'], [('p', 'u'), ('pu', 'n'), ('h', 'u')])
    """
    try:
        import tokenizers
    except ImportError:
        raise missing("tokenizers") from None

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
    """Runs `work` in a thread, because C++ and Rust block Ctrl-C until they are done; with a clock on a terminal."""
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


def missing(library: str) -> ImportError:
    """The error for a library that is not installed."""
    return ImportError(f"learning a vocabulary of this kind needs {library}: pip install 'keras-bert-models[vocab]'")
