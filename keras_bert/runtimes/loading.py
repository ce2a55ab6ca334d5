"""Models in ONNX Runtime or OpenVINO that take texts: opens the directory of an export, without TensorFlow."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from keras_bert.formats import Preset, hugging_face, sentence_transformers
from keras_bert.formats.saved import CONFIG
from keras_bert.runtime_table import RUNTIMES
from keras_bert.runtimes.runtime import Inputs, Run
from keras_bert.task_table import OF_HEAD
from keras_bert.tensors import TRANSFORMERS_INPUTS
from keras_bert.text.arguments import list_of_str
from keras_bert.text.array_preprocessor import ArrayPreprocessor

_CHUNK = 2048  # texts that are sorted by length


class RuntimeModel:
    """A model in ONNX Runtime or OpenVINO that takes texts.

    Use it where a single text must be answered quickly, or where TensorFlow is too large. `load` opens one.

    Args:
        run: computes outputs from inputs under transformers' names.
        preprocessor: makes the inputs.
        labels: the names of the labels, in the order of the outputs; None: the model has none.
        prompts: name -> the text before each text.
        default_prompt: the name of the prompt that texts get by default.

    Call arguments:
        texts: a list of str, or a tuple of two, for pairs. They are one batch.

    Returns:
        A dict of float32 arrays with a row for each text: the outputs that the guide about runtimes lists.

    Raises:
        TypeError: a text is not a str.

    Warns:
        UserWarning: the number of texts that were truncated to the model's maximum length.
    """

    def __init__(
        self,
        run: Run,
        preprocessor: ArrayPreprocessor,
        labels: Sequence[str] | None = None,
        prompts: Mapping[str, str] | None = None,
        default_prompt: str | None = None,
    ) -> None:
        self.preprocessor = preprocessor
        self.labels = None if labels is None else list(labels)
        self.prompts = dict(prompts or {})
        self.default_prompt = default_prompt
        self._run = run

    def __call__(self, texts: Sequence[str] | tuple[Sequence[str], Sequence[str]]) -> dict[str, np.ndarray]:
        columns = tuple(list_of_str(each) for each in (texts if isinstance(texts, tuple) else (texts,)))
        inputs = self.preprocessor(columns)
        self._warn(self._count_truncated(inputs, columns))
        return self._compute(inputs)

    def encode(self, text: str | Iterable[str], batch_tokens: int = 1024, prompt: str | None = None) -> np.ndarray:
        """Encodes a text, or any number of texts, in batches of similar length, as `BertSentenceEncoder.encode` does.

        Args:
            text, batch_tokens, prompt: see `BertSentenceEncoder.encode`.

        Returns:
            float32 `[vector_size]`; for many texts `[number of texts, vector_size]`, in the order of the texts.

        Raises:
            TypeError: a text is not a str.
            ValueError: the model is not a sentence encoder, `batch_tokens` is less than 1, or there is no such prompt.

        Warns:
            UserWarning: the number of texts that were truncated to the model's maximum length.
        """
        if batch_tokens < 1:
            raise ValueError(f"batch_tokens is {batch_tokens}; expected at least 1")
        name = self.default_prompt if prompt is None else prompt
        sentence_transformers.check_prompt(name, self.prompts)
        start = self.prompts[name] if name else ""
        texts = [start + each for each in list_of_str([text] if isinstance(text, str) else text)]
        chunks = [texts[first : first + _CHUNK] for first in range(0, len(texts), _CHUNK)]
        if not texts:
            return self._vectors(self.preprocessor([""]))[:0]  # only the model knows the size of a vector
        vectors, truncated = [], 0
        for chunk in chunks:
            inputs = self.preprocessor(chunk)
            truncated += self._count_truncated(inputs, (chunk,))
            vectors.append(self._encode_by_length(inputs, batch_tokens))
        self._warn(truncated)
        return vectors[0][0] if isinstance(text, str) else np.concatenate(vectors)

    def _encode_by_length(self, inputs: Inputs, batch_tokens: int) -> np.ndarray:
        """Encodes rows in batches of similar length, and returns the vectors in the order of the rows."""
        lengths = inputs["input_mask"].sum(axis=1)
        order = np.argsort(lengths, kind="stable")
        vectors, begin = [], 0
        while begin < len(order):
            end = begin + 1
            while end < len(order) and lengths[order[end]] * (end + 1 - begin) <= batch_tokens:
                end += 1
            batch = order[begin:end]
            vectors.append(self._vectors({name: each[batch, : lengths[batch[-1]]] for name, each in inputs.items()}))
            begin = end
        return np.concatenate(vectors)[np.argsort(order)]

    def _vectors(self, inputs: Inputs) -> np.ndarray:
        outputs = self._compute(inputs)
        if "embedding" not in outputs:
            raise ValueError(f"this model is not a sentence encoder; call it for its outputs, {', '.join(outputs)}")
        return outputs["embedding"]

    def _compute(self, inputs: Inputs) -> dict[str, np.ndarray]:
        return self._run({TRANSFORMERS_INPUTS[name]: each for name, each in inputs.items()})

    def _count_truncated(self, inputs: Inputs, columns: Sequence[Sequence[str]]) -> int:
        """Counts the rows that have lost tokens. Only full rows can have, so only their texts are tokenized again."""
        full: list[int] = np.flatnonzero(inputs["input_mask"].sum(axis=1) == self.preprocessor.longest).tolist()
        segments = [self.preprocessor.tokenize([column[row] for row in full]) for column in columns]
        room = self.preprocessor.longest - self.preprocessor.special_tokens(len(columns))
        return sum(sum(map(len, row)) > room for row in zip(*segments, strict=True))

    def _warn(self, truncated: int) -> None:
        if truncated:
            longest = self.preprocessor.longest
            warnings.warn(f"texts truncated to {longest} tokens, the model's maximum: {truncated}", stacklevel=3)


def load(directory: str | Path) -> RuntimeModel:
    """Opens the directory that `export_onnx` or `export_openvino` wrote, for texts.

    Use it from Python: ONNX Runtime answers a single text faster than TensorFlow does. It does not use TensorFlow; set
    `KERAS_BACKEND=jax` or `torch` so that Keras does not import it. Hugging Face's `tokenizers` splits the texts, with
    the ids that `BertPreprocessor` gives to ordinary text; the guide about runtimes lists the exceptions.

    Args:
        directory: of the export.

    Raises:
        FileNotFoundError: there is no export for ONNX Runtime or OpenVINO, or a file of the tokenizer is missing.
        ImportError: the extra `runtimes` is not installed.
        ValueError: a file is damaged, or the model pools texts without their prompts, which an export does not do.

    Example:
        >>> from keras_bert.runtimes import load
        >>> load("minilm-onnx").encode(["I love pizza", "It rains"]).shape  # doctest: +SKIP
        (2, 384)
    """
    directory = Path(directory)
    runtimes = [each for each in RUNTIMES.values() if each.can_load]
    runtime = next((each for each in runtimes if (directory / each.file).is_file()), None)
    if runtime is None:
        names = " and no ".join(each.file for each in runtimes)
        writers = " or ".join(f"export_{each.name}" for each in runtimes)
        raise FileNotFoundError(f"{directory} has no {names}; {writers} writes such a directory")
    with Preset.open(directory) as preset:
        values, positions = preset.json(hugging_face.CONFIG, CONFIG), preset.config.max_positions
        labels, saved = hugging_face.labels_of(values, directory), values.get(hugging_face.SETTINGS) or {}
        is_sentence_encoder = saved.get("task") == OF_HEAD[None].model
        settings = preset.sentence_settings if is_sentence_encoder else None
    if settings is not None and any(settings.prompts.values()) and not settings.include_prompt:
        raise ValueError(
            f"{directory}: this model pools texts without their prompts, which its export cannot tell apart; use "
            "BertSentenceEncoder"
        )
    rows = saved.get("preprocessor") or {}
    longest = min(rows.get("sequence_length") or rows.get("max_sequence_length") or positions, positions)
    preprocessor = ArrayPreprocessor.from_preset(
        directory,
        special_tokens_in_text=rows.get("special_tokens_in_text") or False,
        sequence_length=None,
        max_sequence_length=longest,
        truncation=rows.get("truncation"),
    )
    prompts, default = ({}, None) if settings is None else (settings.prompts, settings.default_prompt)
    return RuntimeModel(runtime.open(directory / runtime.file), preprocessor, labels, prompts, default)
