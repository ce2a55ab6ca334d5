"""transformers, fine-tuned as its own examples do it: run_glue.py, run_ner.py and run_qa.py."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from _finetune_tasks import CLASSES, NUMBERS, QUESTIONS, WORDS, Examples

from keras_bert.training.batches import batches_of_epoch

_MODELS = {
    CLASSES: transformers.AutoModelForSequenceClassification,
    NUMBERS: transformers.AutoModelForSequenceClassification,
    WORDS: transformers.AutoModelForTokenClassification,
    QUESTIONS: transformers.AutoModelForQuestionAnswering,
}
_LONGEST, _OVERLAP, _BEST, _LONGEST_ANSWER = 384, 128, 20, 30  # of run_qa.py


class Theirs:
    """A model and its tokenizer.

    Args:
        directory: the checkpoint to begin with.
        kind, labels: of the task.
        seed: of the head and of dropout.
        batch_size: how many rows an update sees.
        is_grouped: whether rows of similar length come together in a batch, as `group_by_length` arranges it.
        is_bfloat16: whether training is under autocast to bfloat16.
    """

    def __init__(
        self,
        directory: Path,
        kind: str,
        labels: list[str],
        seed: int,
        batch_size: int = 32,
        is_grouped: bool = True,
        is_bfloat16: bool = False,
    ) -> None:
        transformers.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        transformers.set_seed(seed)
        self.kind, self.labels, self.batch_size = kind, labels, batch_size
        self.is_grouped, self.is_bfloat16 = is_grouped, is_bfloat16
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(str(directory))
        problem = {"problem_type": kind} if kind in (CLASSES, NUMBERS) else {}
        self.model = _MODELS[kind].from_pretrained(str(directory), num_labels=len(labels), **problem)
        pads_labels = transformers.DataCollatorForTokenClassification
        self.collate = (pads_labels if kind == WORDS else transformers.DataCollatorWithPadding)(self.tokenizer)

    # -- Examples -> rows of ids and targets

    def rows(self, examples: Examples) -> list[dict[str, Any]]:
        """What there is to train on."""
        x, y = examples.xy
        encoding = self._encoded(x)
        if self.kind == QUESTIONS:
            targets = [self._span(encoding, i, y) for i in range(len(encoding["input_ids"]))]
        elif self.kind == WORDS:
            targets = [{"labels": self._of_first_tokens(encoding.word_ids(i), tags)} for i, tags in enumerate(y)]
        else:
            targets = [{"labels": label if self.kind == NUMBERS else self.labels.index(label)} for label in y]
        return [{**row, **target} for row, target in zip(_rows(encoding), targets, strict=True)]

    def _encoded(self, x: Any) -> transformers.BatchEncoding:
        if self.kind == QUESTIONS:
            return self.tokenizer(
                *x, truncation="only_second", max_length=_LONGEST, stride=_OVERLAP,
                return_overflowing_tokens=True, return_offsets_mapping=True,
            )  # fmt: skip
        columns = x if isinstance(x, tuple) else (x,)
        return self.tokenizer(*columns, truncation=True, max_length=512, is_split_into_words=self.kind == WORDS)

    def _of_first_tokens(self, words: list[int | None], tags: list[str]) -> list[int]:
        """A word's label where it begins, -100 elsewhere."""
        begins = [word is not None and word != before for word, before in zip(words, [None, *words], strict=False)]
        return [self.labels.index(tags[word]) if new else -100 for word, new in zip(words, begins, strict=True)]

    def _span(self, encoding: transformers.BatchEncoding, i: int, answers: list) -> dict[str, int]:
        """The first and the last token of the answer; `[CLS]` where the window does not have all of it."""
        text, start = answers[encoding["overflow_to_sample_mapping"][i]][0]
        places = [
            place
            for place, (part, (begin, end)) in enumerate(
                zip(encoding.sequence_ids(i), encoding["offset_mapping"][i], strict=True)
            )
            if part == 1 and begin < start + len(text) and end > start
        ]
        first, last = (places[0], places[-1]) if places else (0, 0)
        begin, end = encoding["offset_mapping"][i][first][0], encoding["offset_mapping"][i][last][1]
        is_whole = bool(places) and begin <= start and end >= start + len(text)
        return {"start_positions": first, "end_positions": last} if is_whole else dict.fromkeys(
            ("start_positions", "end_positions"), 0
        )  # fmt: skip

    # -- Training

    def train(self, rows: list[dict[str, Any]], epochs: int, learning_rate: float, seed: int) -> None:
        """AdamW, a linear schedule with warm-up, clipping."""
        lengths = np.array([len(row["input_ids"]) for row in rows])
        steps = epochs * -(-len(rows) // self.batch_size)
        optimizer = adamw(self.model, learning_rate, eps=1e-8)
        schedule = transformers.get_linear_schedule_with_warmup(optimizer, round(0.1 * steps), steps)
        self.model.train()
        for epoch in range(epochs):
            for batch in self._batches(lengths, seed, epoch):
                with torch.autocast("cpu", torch.bfloat16, enabled=self.is_bfloat16):
                    loss = self.model(**self.collate([rows[i] for i in batch])).loss
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()

    def _batches(self, lengths: np.ndarray, seed: int, epoch: int) -> list[np.ndarray]:
        if self.is_grouped:  # what its LengthGroupedSampler does: sorted within 50 batches at a time
            return batches_of_epoch(lengths, seed, epoch, batch_size=self.batch_size)
        order = np.random.default_rng([seed, epoch]).permutation(len(lengths))
        return [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]

    # -- Answers, in the form of the labels

    def answers(self, examples: Examples) -> list:
        x = examples.x
        encoding = self._encoded(x)
        logits = self._logits(_rows(encoding))
        if self.kind == QUESTIONS:
            return self._best_spans(encoding, logits, examples.texts["context"])
        if self.kind == NUMBERS:
            return [row[0] for row in logits]
        if self.kind == CLASSES:
            return [self.labels[row.argmax()] for row in logits]
        answers = []
        for i, words in enumerate(x):
            of_word = dict(zip(reversed(encoding.word_ids(i)), reversed(logits[i]), strict=False))  # of first tokens
            tags = {word: self.labels[row.argmax()] for word, row in of_word.items() if word is not None}
            answers.append([tags.get(word, "O") for word in range(len(words))])
        return answers

    def _logits(self, rows: list[dict[str, Any]]) -> list[np.ndarray]:
        """Of each row; of its tokens without padding where these have logits."""
        self.model.eval()
        found: list[Any] = [None] * len(rows)
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]["input_ids"]))
        with torch.no_grad():
            for first in range(0, len(rows), 32):
                batch = order[first : first + 32]
                output = self.model(**self.tokenizer.pad([rows[i] for i in batch], return_tensors="pt"))
                if self.kind == QUESTIONS:
                    logits = torch.stack([output.start_logits, output.end_logits], dim=-1)
                else:
                    logits = output.logits
                for i, row in zip(batch, logits.numpy(), strict=True):
                    found[i] = row[: len(rows[i]["input_ids"])] if self.kind in (QUESTIONS, WORDS) else row
        return found

    def _best_spans(self, encoding: Any, logits: list[np.ndarray], contexts: list[str]) -> list[str]:
        """The span with the highest sum of logits, of the 20 best starts and ends of each window, at most 30 tokens."""
        best = [(-np.inf, "")] * len(contexts)
        for i, row in enumerate(logits):
            number = encoding["overflow_to_sample_mapping"][i]
            parts, offsets = encoding.sequence_ids(i), encoding["offset_mapping"][i]
            starts, ends = (np.argsort(-row[:, side])[:_BEST] for side in (0, 1))
            for start in (int(place) for place in starts if parts[place] == 1):
                for end in (int(place) for place in ends if parts[place] == 1):
                    score = row[start, 0] + row[end, 1]
                    if start <= end < start + _LONGEST_ANSWER and score > best[number][0]:
                        best[number] = score, contexts[number][offsets[start][0] : offsets[end][1]]
        return [text for _, text in best]


def adamw(model: torch.nn.Module, learning_rate: float, eps: float) -> torch.optim.AdamW:
    """Biases and layer normalization do not decay."""
    no_decay = ("bias", "LayerNorm.weight")
    named = list(model.named_parameters())
    groups = [
        {"params": [p for n, p in named if not n.endswith(no_decay)], "weight_decay": 0.01},
        {"params": [p for n, p in named if n.endswith(no_decay)], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=learning_rate, eps=eps)


def _rows(encoding: Any) -> list[dict[str, Any]]:
    names = ("input_ids", "attention_mask", "token_type_ids")
    return [{name: encoding[name][i] for name in names} for i in range(len(encoding["input_ids"]))]
