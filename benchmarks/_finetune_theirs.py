"""transformers, fine-tuned as its own examples do it: run_glue.py and run_qa.py."""

from pathlib import Path

import numpy as np
import torch
import transformers
from _finetune_tasks import QUESTIONS, Examples

from keras_bert.training.batches import batches_of_epoch

_LONGEST, _OVERLAP = 384, 128  # of run_qa.py


class Theirs:
    """A model and its tokenizer, and the rows that it trains on.

    Args:
        directory: the checkpoint to begin with.
        kind, examples: of the task.
        is_grouped: whether rows of similar length come together in a batch, as `group_by_length` arranges it.
        is_bfloat16: whether training is under autocast to bfloat16.
    """

    def __init__(
        self, directory: Path, kind: str, examples: Examples, is_grouped: bool = False, is_bfloat16: bool = False
    ) -> None:
        transformers.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        transformers.set_seed(0)
        self.is_grouped, self.is_bfloat16 = is_grouped, is_bfloat16
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(directory))
        self.collate = transformers.DataCollatorWithPadding(tokenizer)
        x, y = examples.xy
        if kind == QUESTIONS:
            self.model = transformers.AutoModelForQuestionAnswering.from_pretrained(str(directory))
            encoding = tokenizer(
                *x, truncation="only_second", max_length=_LONGEST, stride=_OVERLAP,
                return_overflowing_tokens=True, return_offsets_mapping=True,
            )  # fmt: skip
            targets = [self._span(encoding, i, y) for i in range(len(encoding["input_ids"]))]
        else:
            labels = sorted(set(y))
            model = transformers.AutoModelForSequenceClassification
            self.model = model.from_pretrained(str(directory), num_labels=len(labels))
            encoding = tokenizer(x, truncation=True, max_length=512)
            targets = [{"labels": labels.index(label)} for label in y]
        names = ("input_ids", "attention_mask", "token_type_ids")
        self.rows = [{name: encoding[name][i] for name in names} | target for i, target in enumerate(targets)]

    def _span(self, encoding: transformers.BatchEncoding, i: int, answers: list) -> dict[str, int]:
        """The first and the last token of the answer; `[CLS]` where the window does not have all of it."""
        text, start = answers[encoding["overflow_to_sample_mapping"][i]][0]
        parts = zip(encoding.sequence_ids(i), encoding["offset_mapping"][i], strict=True)
        places = [
            place
            for place, (part, (begin, end)) in enumerate(parts)
            if part == 1 and begin < start + len(text) and end > start
        ]
        first, last = (places[0], places[-1]) if places else (0, 0)
        begin, end = encoding["offset_mapping"][i][first][0], encoding["offset_mapping"][i][last][1]
        is_whole = bool(places) and begin <= start and end >= start + len(text)
        first, last = (first, last) if is_whole else (0, 0)
        return {"start_positions": first, "end_positions": last}

    def train(self) -> None:
        """An epoch: AdamW, a linear schedule with warm-up, clipping."""
        lengths = np.array([len(row["input_ids"]) for row in self.rows])
        if self.is_grouped:  # what its LengthGroupedSampler does: sorted within 50 batches at a time
            batches = batches_of_epoch(lengths, 0, 0, batch_size=32)
        else:
            order = np.random.default_rng(0).permutation(len(lengths))
            batches = [order[i : i + 32] for i in range(0, len(order), 32)]
        optimizer = adamw(self.model, 5e-5, eps=1e-8)
        steps = len(batches)
        schedule = transformers.get_linear_schedule_with_warmup(optimizer, round(0.1 * steps), steps)
        self.model.train()
        for batch in batches:
            with torch.autocast("cpu", torch.bfloat16, enabled=self.is_bfloat16):
                loss = self.model(**self.collate([self.rows[i] for i in batch])).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()


def adamw(model: torch.nn.Module, learning_rate: float, eps: float) -> torch.optim.AdamW:
    """Biases and layer normalization do not decay."""
    no_decay = ("bias", "LayerNorm.weight")
    named = list(model.named_parameters())
    groups = [
        {"params": [p for n, p in named if not n.endswith(no_decay)], "weight_decay": 0.01},
        {"params": [p for n, p in named if n.endswith(no_decay)], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=learning_rate, eps=eps)
