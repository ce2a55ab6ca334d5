"""Models of exports: the verbs, arguments and answers of their Keras twins, computed by another runtime.

An engine runs packed inputs; what comes before it is NumPy and Hugging Face's `tokenizers`, and what comes after it is
`answers/`, which the models of Keras use, too. Nothing here needs TensorFlow or Keras.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from tqdm import tqdm

from keras_bert import files
from keras_bert.answers import classes, ranking, similarity, spans, token_vectors, tokens, words
from keras_bert.answers.activations import ACTIVATIONS, softmax
from keras_bert.answers.answerer import Answerer
from keras_bert.answers.by_length import check_finite, rows_by_length
from keras_bert.answers.columns import Pair
from keras_bert.answers.entities import allowed_transitions
from keras_bert.choices import WINDOW_POOLINGS
from keras_bert.engines.by_length import EngineByLength, EngineBySentence, Results, Segments
from keras_bert.engines.paths import FORBIDDEN, Scores, best_path, marginals
from keras_bert.engines.runtime import Run, Signature, Spec
from keras_bert.task_table import TASKS
from keras_bert.tensors import TRANSFORMERS_INPUTS
from keras_bert.text.arguments import list_of_str
from keras_bert.text.arrays.packing import lengths_of, most_context
from keras_bert.text.arrays.preprocessor import ArrayPreprocessor, read_contexts
from keras_bert.text.arrays.words import find_words

_TOKENS_AT_A_TIME = 8192  # of the windows of a batch
_SERVED_AT_A_TIME = 64  # tokens of a request that are computed together; with more, padding costs more than it saves
_CANDIDATES = 5  # for a mask, in a signature
_STRINGS, _FLOATS, _INTS = np.dtype(object), np.dtype(np.float32), np.dtype(np.int32)


class Engine(NamedTuple):
    """What runs the graphs of an export."""

    run: Run  # from inputs under transformers' names to outputs by name
    head: Run | None = None  # the small graph beside the model's, see `runtime_table.py`
    parts: Mapping[str, np.ndarray] = {}  # weights that no graph has, by name
    files: Sequence[Path] = ()  # what all answers depend on


class RuntimeModel(Answerer):
    """A model in ONNX Runtime or OpenVINO that takes texts. `load` opens one, of the class of its task.

    Use it where a single text must be answered quickly, or where TensorFlow is too large. The methods are those of the
    task's model in Keras, with the same arguments and answers: `encode`, `classify`, `tag`, `entities`, `answer`,
    `choose`, `score`, `rank`, `fill`. An encoder without a task can only be called.

    Args:
        engine: computes outputs from inputs.
        preprocessor: makes the inputs.
        settings: arguments of the task's class in Keras, which become attributes.

    Call arguments:
        texts: a list of str, or a tuple of two, for pairs. They are one batch.

    Returns:
        A dict of float32 arrays with a row for each text: the outputs that the guide about runtimes lists.

    Raises:
        TypeError: a text is not a str.

    Warns:
        UserWarning: the number of texts that were truncated to the model's maximum length.
    """

    CHANGEABLE: ClassVar[tuple[str, ...]] = ()  # settings that `configure` changes
    OUTPUTS: ClassVar[tuple[str, ...]] = ()  # of `serving_default`, if others are only in `with_token_count`
    labels: list[str] | None = None  # in the order of the outputs
    _by_length: EngineByLength

    def __init_subclass__(cls, **kwargs: Any) -> None:
        file = cls.__module__.rpartition(".")[2]
        cls.TASK = next((task.model for task in TASKS if task.engine == f"{file}.{cls.__name__}"), cls.TASK)
        super().__init_subclass__(**kwargs)

    def __init__(self, engine: Engine, preprocessor: ArrayPreprocessor, settings: Mapping[str, Any]) -> None:
        self.preprocessor = preprocessor
        self.settings = dict(settings)
        self._engine = engine
        self._by_length = EngineByLength(preprocessor, self._compute)
        for name, value in settings.items():
            if not isinstance(getattr(type(self), name, None), property | functools.cached_property):
                setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        verb = getattr(type(self), "VERB", "a call")
        raise AttributeError(f"an export of a {type(self).TASK or 'BertEncoder'} has no {name!r}; it has {verb}")

    def configure(self, **settings: Any) -> None:
        """Changes settings that `from_preset` of the task's class takes. Raises ValueError for what the graph fixes."""
        given = {name: value for name, value in settings.items() if value is not None}
        for name, value in given.items():
            if self._is_fixed(name, value):
                now = self.settings.get(name, value)
                now = "" if now == value else f" at {now!r:.60}"
                raise ValueError(f"{name} of an export is fixed{now}; export the model again with {name}={value!r:.60}")
        for name, value in given.items():
            setattr(self, name, value)

    def _is_fixed(self, name: str, value: Any) -> bool:
        """Whether the graph fixes a setting, so that it cannot get this value."""
        return name not in self.CHANGEABLE

    @functools.cached_property
    def token_texts(self) -> tokens.TokenTexts:
        """The texts of the vocabulary's tokens."""
        texts, ids = self.preprocessor.tokenizer.token_texts(), self.preprocessor.special_ids
        return tokens.TokenTexts(texts, self.preprocessor.mask_token, self.preprocessor.includes_space, ids)

    @functools.cached_property
    def digest(self) -> str:
        """A digest of everything that the answers depend on."""
        return files.sha256(each.read_bytes() for each in self._engine.files)

    def __call__(self, texts: Sequence[str] | tuple[Sequence[str], Sequence[str]]) -> dict[str, np.ndarray]:
        columns = texts if isinstance(texts, tuple) else (texts,)
        segments = tuple(self.preprocessor.tokenize(list_of_str(each)) for each in columns)
        lengths, longest = EngineByLength.lengths(self._by_length, segments), self.preprocessor.longest
        if truncated := int(np.count_nonzero(lengths > longest)):
            warnings.warn(f"texts truncated to {longest} tokens, the model's maximum: {truncated}", stacklevel=2)
        return self._outputs(self.preprocessor.pack(segments))

    def _outputs(self, packed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Computes the outputs of packed inputs."""
        return self._engine.run({TRANSFORMERS_INPUTS[name]: each for name, each in packed.items()})

    def _head(self, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """Computes the outputs of the graph beside the model's."""
        if self._engine.head is None:
            raise ValueError(
                "this export has no graph of its head, which long_text='windows' and include_prompt=False need; "
                "export the model again"
            )
        return self._engine.head(inputs)

    def _compute(self, segments: Segments, **options: Any) -> Results:
        """Computes a result for each text from its tokens: its logits."""
        return self._outputs(self.preprocessor.pack(segments))["logits"]

    def _each_row(
        self, segments: Segments, read: Callable[[dict[str, np.ndarray], dict[str, np.ndarray]], Iterable[Any]]
    ) -> Iterator[Any]:
        """Runs rows, some at a time as windows are many, and yields what `read` makes of their outputs and inputs."""
        most = max((sum(map(len, row)) for row in zip(*segments, strict=True)), default=0)
        size = max(1, _TOKENS_AT_A_TIME // max(1, most))
        for first in range(0, len(segments[0]), size):
            packed = self.preprocessor.pack(tuple(column[first : first + size] for column in segments))
            yield from read(self._outputs(packed), packed)

    # -- Serving: the signatures of the model's SavedModel, in arrays

    @functools.cached_property
    def signatures(self) -> dict[str, Signature]:
        """What a server can ask, by name, as of the model's SavedModel."""
        inputs = dict.fromkeys(self.text_names, Spec(_STRINGS, (None,)))
        # Of a request without texts, axes of any size have the size 0.
        served = self._serve(*([] for _ in self.text_names))
        outputs = {name: Spec(each.dtype, tuple(size or None for size in each.shape)) for name, each in served.items()}
        if not self.OUTPUTS:
            return {"serving_default": Signature(inputs, outputs)}
        default = Signature(inputs, {name: outputs[name] for name in self.OUTPUTS})
        return {"serving_default": default, "with_token_count": Signature(inputs, outputs)}

    def serve(self, signature: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Answers a request: arrays of bytes, `[batch]`, by name, to arrays by name; strings are bytes.

        Raises:
            ValueError: a text is not UTF-8, or the model refuses it.
        """
        columns = [_texts(name, inputs[name]) for name in self.text_names]
        outputs = self._serve(*columns)
        return {name: outputs[name] for name in self.signatures[signature].outputs}

    def _serve(self, *columns: list[str]) -> dict[str, np.ndarray]:
        """Computes all outputs of a request. `signatures` reads their dtypes and shapes from one without texts."""
        return self._served(self._rows(columns)[0])

    def _served(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        """Makes the outputs of a serving signature, by name, from the model's for texts; strings are bytes."""
        raise ValueError("this export is an encoder without a task, which no server can ask; export a task's model")

    def _rows(self, columns: Sequence[list[str]], prompt: str = "", **options: Any) -> tuple[np.ndarray, np.ndarray]:
        """Computes the results of a request, and counts the tokens that are read of each text, int32 `[batch]`."""
        by_length, preprocessor = self._by_length, self.preprocessor
        texts: list[Any] = [Pair(*each) for each in zip(*columns, strict=True)] if len(columns) > 1 else columns[0]
        if not texts:
            return np.zeros(0), np.zeros(0, np.int32)
        segments = by_length.tokenize(texts, prompt)
        lengths = by_length.lengths(segments)
        if preprocessor.stride is None:
            counts = np.minimum(lengths, preprocessor.longest)
        else:
            split = preprocessor.windows(segments)
            windows = sum(map(lengths_of, split.segments)) + preprocessor.special_tokens(len(segments))
            counts = np.bincount(split.rows, windows)
        with tqdm(disable=True) as bar:
            rows = by_length.compute(segments, counts.astype(int), _SERVED_AT_A_TIME, bar, **options)
        check_finite(rows)
        return np.array(rows), counts.astype(np.int32)


class RuntimeClassifier(classes.Classifier, RuntimeModel):
    """`BertClassifier` in another runtime."""

    window_pooling: str

    def __init__(self, engine: Engine, preprocessor: ArrayPreprocessor, settings: Mapping[str, Any]) -> None:
        super().__init__(engine, preprocessor, settings)
        self.kind = classes.ANSWERS[self.settings["problem_type"]](self.labels)

    def _compute(self, segments: Segments, **options: Any) -> Results:
        if self.preprocessor.stride is None:
            return super()._compute(segments)
        split = self.preprocessor.windows(segments)
        rows = [*self._each_row(split.segments, lambda outputs, _: outputs.get("features", outputs["logits"]))]
        pooled = _pool_windows(np.stack(rows), split.rows, self.window_pooling)
        return pooled if self._engine.head is None else self._head(features=pooled)["logits"]


class RuntimeTagger(words.Tagger, RuntimeModel):
    """`BertTokenClassifier` in another runtime."""

    def __init__(self, engine: Engine, preprocessor: ArrayPreprocessor, settings: Mapping[str, Any]) -> None:
        super().__init__(engine, preprocessor, settings)
        self.kind = words.WordAnswers(self.labels)
        self._by_length = EngineBySentence(preprocessor, self._compute)
        self._scores = self._read_scores(self.settings.get("crf"))

    def _read_scores(self, crf: bool | str | None) -> Scores | None:
        if not crf:
            return None
        scores = [self._engine.parts[name].astype(np.float64) for name in Scores._fields]
        if isinstance(crf, str):
            allowed = allowed_transitions(self.labels, crf)
            scores = [np.where(is_allowed, each, FORBIDDEN) for is_allowed, each in zip(allowed, scores, strict=True)]
        return Scores(*scores)

    def _compute(self, segments: Segments, **options: Any) -> Results:
        """Predicts words, float64 `[words, 2]` for each sentence: the index and the probability of a word's label."""
        ids, begins = segments
        split = self.preprocessor.windows((ids,))
        if self.preprocessor.stride is None:
            most = self.preprocessor.longest - self.preprocessor.special_tokens(1)
            is_best = [np.arange(len(each)) < most for each in ids]
        else:
            is_best = most_context(split)
        logits = [np.zeros((len(each), len(self.labels))) for each in ids]
        is_read = [np.zeros(len(each), bool) for each in ids]  # not the logits say so: a damaged model's may be NaN
        found = self._each_row(split.segments, lambda outputs, _: outputs["logits"])
        for row, start, best, values in zip(split.rows, split.starts, is_best, found, strict=True):
            kept = np.flatnonzero(best)
            logits[row][start + kept], is_read[row][start + kept] = values[1 + kept], True
        rows = zip(logits, is_read, (np.array(each, bool) for each in begins), strict=True)
        return [self._predict(values[first], read[first]) for values, read, first in rows]

    def _predict(self, logits: np.ndarray, is_read: np.ndarray) -> np.ndarray:
        """Predicts the labels of a sentence's words from the logits of their first tokens, `[words, labels]`."""
        answers = np.stack([np.full(len(logits), -1.0), np.zeros(len(logits))], axis=1)
        known = logits[is_read]
        if self._scores is None:
            best, probabilities = known.argmax(axis=1), softmax(known) if len(known) else known
        else:
            best, probabilities = best_path(known, self._scores), marginals(known, self._scores)
        answers[is_read] = np.stack([best, probabilities[np.arange(len(best)), best]], axis=1)
        return answers

    def _serve(self, *columns: list[str]) -> dict[str, np.ndarray]:
        (texts,) = columns
        offsets = find_words(texts)
        sentences = [[text[start:end] for start, end in row] for text, row in zip(texts, offsets, strict=True)]
        found = self._by_length.counted(sentences, _SERVED_AT_A_TIME, False)[0] if texts else []
        answers = [self._answers(*each) for each in zip(sentences, found, strict=True)]
        names = [[(each["label"] or "").encode() for each in row] for row in answers]
        return {
            "words": _padded([[word.encode() for word in row] for row in sentences], b"", _STRINGS),
            "labels": _padded(names, b"", _STRINGS),
            "probabilities": _padded([[each["probability"] or 0.0 for each in row] for row in answers], 0, _FLOATS),
            "starts": _padded([[start for start, _ in row] for row in offsets], -1, _INTS),
            "ends": _padded([[end for _, end in row] for row in offsets], -1, _INTS),
        }


class RuntimeQuestionAnswerer(spans.QuestionAnswerer, RuntimeModel):
    """`BertQuestionAnswerer` in another runtime."""

    CHANGEABLE = ("no_answer_threshold",)

    @property
    def kind(self) -> spans.SpanAnswers:
        return spans.SpanAnswers(self.no_answer_threshold)

    def _answers(
        self, questions: list[str], contexts: list[str], top_k: int, batch_tokens: int, bar: tqdm
    ) -> list[list[spans.SpanAnswer]]:
        preprocessor = self.preprocessor
        split, is_best, read, tokens_before = read_contexts(preprocessor, questions, contexts)
        count = lengths_of(split.segments[1])
        lengths = tokens_before + count + 1
        bar.total += len(lengths)
        found: list[list[spans.Spans]] = [[] for _ in contexts]
        no_answer = np.full(len(contexts), np.inf)
        by_window: dict[int, spans.Spans] = {}
        sums = np.zeros((len(lengths), 2))  # of the logits of windows: not finite if one of them is not
        for rows in rows_by_length(np.maximum(lengths, preprocessor.sequence_length or 0), batch_tokens):
            order = rows.tolist()
            outputs = self._outputs(preprocessor.pack(tuple([each[i] for i in order] for each in split.segments)))
            both = np.stack([outputs["start_logits"], outputs["end_logits"]], axis=1)  # [rows, 2, seq_length]
            sums[order] = both.sum(axis=2, dtype=np.float64)
            for i, (start, end) in zip(order, both, strict=True):
                tokens = slice(tokens_before[i], tokens_before[i] + count[i])
                best = spans.best_spans(start[tokens], end[tokens], is_best[i], self.max_answer_length)
                by_window[i] = best._replace(firsts=best.firsts + split.starts[i], lasts=best.lasts + split.starts[i])
                no_answer[split.rows[i]] = min(no_answer[split.rows[i]], start[0] + end[0])
            bar.update(len(order))
        check_finite([*sums], item="window")
        for i, row in enumerate(split.rows):
            found[row].append(by_window[i])
        return [
            spans.rank_spans(
                context,
                (np.asarray(each.starts), np.asarray(each.ends)),
                windows,
                score,
                self.no_answer_threshold,
                top_k,
            )
            for context, each, windows, score in zip(contexts, read, found, no_answer, strict=True)
        ]

    def _serve(self, *columns: list[str]) -> dict[str, np.ndarray]:
        with tqdm(total=0, disable=True) as bar:
            found = self._answers(columns[0], columns[1], 1, _SERVED_AT_A_TIME, bar) if columns[0] else []
        answers = [{**each[0], "answer": each[0]["answer"].encode()} for each in found]
        types = {"answer": _STRINGS, "start": _INTS, "end": _INTS}
        types |= dict.fromkeys(("score", "probability", "no_answer_score"), _FLOATS)
        return {name: np.array([each[name] for each in answers], dtype) for name, dtype in types.items()}


class RuntimeReranker(ranking.Reranker, RuntimeModel):
    """`BertReranker` in another runtime."""

    OUTPUTS = ("score",)

    def _serve(self, *columns: list[str]) -> dict[str, np.ndarray]:
        text, text_pair = columns
        text = text * len(text_pair) if len(text) == 1 else text  # a single query
        if len(text) != len(text_pair):
            raise ValueError(f"there are {len(text)} texts, but {len(text_pair)} in text_pair")
        rows, counts = self._rows((text, text_pair))
        logit = rows.reshape(-1).astype(np.float32)
        return {"score": ACTIVATIONS[self.activation](logit), "logit": logit, "token_count": counts}


class RuntimeSentenceEncoder(similarity.SentenceEncoder, RuntimeModel):
    """`BertSentenceEncoder` in another runtime."""

    CHANGEABLE = ("default_prompt", "column_prompts", "normalize")
    OUTPUTS = ("embedding",)
    normalize: bool
    window_pooling: str
    matryoshka_dimensions: Sequence[int] | None

    @property
    def kind(self) -> similarity.VectorAnswers:
        return similarity.VectorAnswers(self.similarity)

    @functools.cached_property
    def vector_size(self) -> int:
        return self(["a"])["embedding"].shape[1]

    def configure(self, **settings: Any) -> None:
        super().configure(**settings)
        for name in (self.default_prompt, *(self.column_prompts or ())):
            self.prompt_text(name)  # raises

    def _is_fixed(self, name: str, value: Any) -> bool:
        in_graph = name == "normalize" and self.settings["normalize"] and not value
        return in_graph or super()._is_fixed(name, value)

    def _count_tokens(self, prompt: str) -> int:
        return len(self.preprocessor.tokenize([prompt])[0])

    def _compute(self, segments: Segments, skipped: int = 0, **options: Any) -> Results:
        if self.preprocessor.stride is None:
            packed = self.preprocessor.pack(segments)
            return self._vectors(self._outputs(packed), packed, skipped)
        split = self.preprocessor.windows(segments)
        begins = iter(split.starts == 0)

        def read(outputs: dict[str, np.ndarray], packed: dict[str, np.ndarray]) -> np.ndarray:
            is_first = np.array([next(begins) for _ in packed["input_mask"]])
            return self._vectors(outputs, packed, skipped * is_first[:, None])

        vectors = _pool_windows(np.stack([*self._each_row(split.segments, read)]), split.rows, self.window_pooling)
        return of_length_1(vectors) if self.normalize else vectors

    def _vectors(self, outputs: Mapping[str, np.ndarray], packed: Mapping[str, np.ndarray], skipped: Any) -> np.ndarray:
        """Pools hidden states to vectors; the pooling leaves out the first `skipped` tokens of each row."""
        if np.any(skipped):
            mask = packed["input_mask"] * (np.arange(packed["input_mask"].shape[1]) >= skipped)
            outputs = self._head(sequence_output=outputs["sequence_output"], input_mask=mask)
        vectors = outputs["embedding"]
        return of_length_1(vectors) if self.normalize and not self.settings["normalize"] else vectors

    def _serve(self, *columns: list[str]) -> dict[str, np.ndarray]:
        prompt = self.prompt_text(None)
        rows, counts = self._rows(columns, prompt, skipped=self._count_skipped(prompt))
        vectors = rows.reshape(-1, self.vector_size).astype(np.float32)
        short = {size: vectors[:, :size] for size in self.matryoshka_dimensions or () if size < self.vector_size}
        short = {f"embedding_{n}": of_length_1(each) if self.normalize else each for n, each in short.items()}
        return {"embedding": vectors, "token_count": counts, **short}


class RuntimeSparseEncoder(tokens.SparseEncoder, RuntimeModel):
    """`BertSparseEncoder` in another runtime."""

    @property
    def query_table(self) -> np.ndarray | None:
        return self._engine.parts.get("query_weights")

    def _query_ids(self, texts: Iterable[str]) -> list[np.ndarray]:
        return [np.array(ids, int) for ids in self.preprocessor.tokenize(list_of_str(texts))]

    def _compute(self, segments: Segments, top_k: int | None = None, **options: Any) -> Results:
        weights = self._outputs(self.preprocessor.pack(segments))["weights"]
        ranks = np.where(np.isfinite(weights), -weights, -np.inf)  # what is not finite is first, so that it is refused
        orders = (np.argsort(rank, kind="stable")[: np.count_nonzero(rank)][:top_k] for rank in ranks)
        return [np.stack([order, row[order]], axis=1) for row, order in zip(weights, orders, strict=True)]

    def _serve(self, *columns: list[str]) -> dict[str, np.ndarray]:
        found = [[*each.items()] for each in self.encode(columns[0], progress=False)]
        names = [[token.encode() for token, _ in row] for row in found]
        weights = [[weight for _, weight in row] for row in found]
        return {"tokens": _padded(names, b"", _STRINGS), "weights": _padded(weights, 0, _FLOATS)}


class RuntimeMultiVectorEncoder(token_vectors.MultiVectorEncoder, RuntimeModel):
    """`BertMultiVectorEncoder` in another runtime."""

    OUTPUTS = ("embeddings", "mask")
    dense: Sequence[Mapping[str, Any]] | None
    _rows: Mapping[str, _EngineOfKind]

    def __init__(self, engine: Engine, preprocessor: ArrayPreprocessor, settings: Mapping[str, Any]) -> None:
        super().__init__(engine, preprocessor, settings)
        self.prompts, self.skipped_tokens = self.prompts or {}, self.skipped_tokens or ()
        preprocessors = self._read_settings(preprocessor, ArrayPreprocessor)
        self._rows = {
            kind: _EngineOfKind(each, self._compute, self._first_token(kind), self._least(kind))
            for kind, each in preprocessors.items()
        }
        self._by_length = self._rows["document"]

    @functools.cached_property
    def vector_size(self) -> int:
        return self.dense[-1]["units"] if self.dense else self(["a"])["embeddings"].shape[2]

    def _compute(self, segments: Segments, kind: str = "document", **options: Any) -> Results:
        packed, counts = self._to_count(self._rows[kind].pack(segments), kind, np)
        vectors = self._outputs(packed)["embeddings"]
        return np.concatenate([vectors, counts[..., None].astype(np.float32)], axis=-1)

    @functools.cached_property
    def signatures(self) -> dict[str, Signature]:
        token_vectors.check_served(self.token_pooling)
        found = super().signatures
        text, pair, count = Spec(_STRINGS, (None,)), Spec(_FLOATS, (None,)), Spec(_INTS, (None,))
        rerank = Signature({"text": text, "text_pair": text}, {"score": pair, "token_count": count})
        return {**found, "query": found["serving_default"], "rerank": rerank}

    def serve(self, signature: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        columns = {name: _texts(name, each) for name, each in inputs.items()}
        if signature == "rerank":
            return self._serve_rerank(**columns)
        outputs = self._serve(columns["text"], kind="query" if signature == "query" else "document")
        return {name: outputs[name] for name in self.signatures[signature].outputs}

    def _serve(self, *columns: list[str], kind: str = "document") -> dict[str, np.ndarray]:
        found, counts = self._counted_rows(kind, columns[0])
        rows = np.zeros((len(found), max(map(len, found), default=0), self.vector_size + 1), np.float32)
        for row, each in zip(rows, found, strict=True):
            row[: len(each)] = each
        mask = rows[..., -1].astype(np.int32)
        return {"embeddings": rows[..., :-1] * rows[..., -1:], "mask": mask, "token_count": counts}

    def _serve_rerank(self, text: list[str], text_pair: list[str]) -> dict[str, np.ndarray]:
        queries = [*dict.fromkeys(text)]
        (vectors, counts), (documents, of_documents) = (
            self._counted_rows(kind, texts) for kind, texts in (("query", queries), ("document", text_pair))
        )
        vectors, documents = ([row[row[:, -1] > 0, :-1] for row in rows] for rows in (vectors, documents))
        numbers = [queries.index(each) for each in text]
        scores = [self.similarity(vectors[n], each)[0, 0] for n, each in zip(numbers, documents, strict=True)]
        return {"score": np.array(scores, np.float32), "token_count": counts[numbers] + of_documents}

    def _counted_rows(self, kind: str, texts: list[str]) -> tuple[list[np.ndarray], np.ndarray]:
        """Computes the rows of a request, and the number of tokens that are read of each text, int32 `[texts]`."""
        by_length, before = self._rows[kind], self._text_before(kind)
        found = by_length.counted(texts, _SERVED_AT_A_TIME, False, before, kind=kind)[0]
        lengths = EngineByLength.lengths(by_length, by_length.tokenize([*texts], before))
        return found, np.minimum(lengths, by_length.longest).astype(np.int32)


class _EngineOfKind(EngineByLength):
    """`EngineByLength` for queries or documents, whose marker is their first token."""

    def __init__(
        self, preprocessor: ArrayPreprocessor, compute: Any, first_token: list[int], least_length: int
    ) -> None:
        super().__init__(preprocessor, compute)
        self._first_token, self._least_length = first_token, least_length
        self.pack, self.longest = preprocessor.pack, preprocessor.longest

    def tokenize(self, texts: list[Any], prompt: str = "", first: int = 0) -> Segments:
        return tuple([[*self._first_token, *ids] for ids in each] for each in super().tokenize(texts, prompt, first))

    def lengths(self, segments: Segments) -> np.ndarray:
        return np.maximum(super().lengths(segments), self._least_length)


class RuntimeMaskedLM(tokens.MaskFiller, RuntimeModel):
    """`BertMaskedLM` in another runtime."""

    @property
    def _count(self) -> int:
        return min(_CANDIDATES, self.preprocessor.tokenizer.vocabulary_size)

    def _compute(self, segments: Segments, top_k: int = _CANDIDATES, **options: Any) -> Results:
        packed = self.preprocessor.pack(segments)
        results = []
        for row, ids in enumerate(packed["input_word_ids"]):
            one = {name: each[row : row + 1] for name, each in packed.items()}

            def predict(ids: np.ndarray, one: dict[str, np.ndarray] = one) -> np.ndarray:
                return self._outputs({**one, "input_word_ids": ids[None]})["logits"][0]

            results.append(tokens.fill_masks(predict, ids, self.preprocessor.mask_token_id, top_k))
        return results

    def _serve(self, *columns: list[str]) -> dict[str, np.ndarray]:
        count = self._count
        found = self._by_length.counted(columns[0], _SERVED_AT_A_TIME, False, top_k=count)[0] if columns[0] else []
        answers = [self._filled(*each) for each in zip(columns[0], found, strict=True)]
        most = max((len(each["masks"]) for each in answers), default=0)
        names = np.full((len(answers), most, count), b"", object)
        probabilities = np.zeros(names.shape, np.float32)
        for row, each in enumerate(answers):
            for mask, candidates in enumerate(each["masks"]):
                names[row, mask] = [candidate["token"].encode() for candidate in candidates]
                probabilities[row, mask] = [candidate["probability"] for candidate in candidates]
        filled = np.array([each["text"].encode() for each in answers], object)
        return {"filled": filled, "tokens": names, "probabilities": probabilities}


def _pool_windows(values: np.ndarray, rows: np.ndarray, pooling: str) -> np.ndarray:
    """Pools the values of windows, float `[windows, size]`, of texts `rows`, ascending: `[texts, size]`."""
    function, _, is_mean = WINDOW_POOLINGS[pooling]
    pooled = getattr(np, function).reduceat(values, np.flatnonzero(np.diff(rows, prepend=-1)))
    return pooled / np.bincount(rows)[:, None].astype(values.dtype) if is_mean else pooled


def of_length_1(vectors: np.ndarray) -> np.ndarray:
    """Scales vectors, float `[..., size]`, to length 1; zeros stay."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), np.finfo(np.float32).tiny)


def _texts(name: str, strings: np.ndarray) -> list[str]:
    """Decodes bytes. Raises ValueError for those that are not UTF-8."""
    texts = []
    for row, each in enumerate(strings):
        try:
            texts.append(each.decode())
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}: text {row} (from 0) is not valid UTF-8 at byte {error.start}") from None
    return texts


def _padded(rows: Sequence[Sequence[Any]], padding: Any, dtype: np.dtype) -> np.ndarray:
    """Makes an array of rows of different lengths, with the padding at their ends."""
    array = np.full((len(rows), max(map(len, rows), default=0)), padding, dtype)
    for row, values in zip(array, rows, strict=True):
        row[: len(values)] = values
    return array
