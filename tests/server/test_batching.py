"""Which requests run together."""

import asyncio
import time

import numpy as np
import pytest

from keras_bert.server.errors import Code, ServingError
from keras_bert.server.model import RUNS_AT_A_TIME
from keras_bert.server.predicting import Batcher, Predictor
from keras_bert.server.requests import Request, current
from keras_bert.server.saved_model import SavedModel

from .servers import HANGS

pytestmark = pytest.mark.timing

ONE_ROW = {"x": np.zeros(1, np.float32)}


@pytest.fixture(scope="module")
def model(toy_model):
    model = SavedModel(toy_model, "toy")
    yield model
    model.close()


def answers(model, name, output, jobs, **limits):
    """Sends jobs of one row to a signature together. Returns the output of each, or its error."""

    async def ask():
        batcher, signature = Batcher(**limits, add_run=lambda *_: None), model.signature(name)
        asked = [batcher.run(model, signature, job, time.monotonic() + HANGS) for job in jobs]
        found = await asyncio.gather(*asked, return_exceptions=True)
        await batcher.close()
        return [each if isinstance(each, Exception) else int(each[output][0]) for each in found]

    return asyncio.run(ask())


def rows_of_runs(model, jobs, **limits):
    """Sends `jobs` jobs of one row together. Returns, for each, the number of rows in its run, or its error."""
    return answers(model, "together", "rows", [ONE_ROW] * jobs, **limits)


def test_what_arrives_together_is_one_batch(model):
    assert rows_of_runs(model, 5, max_rows=4, max_waiting=10) == [4, 4, 4, 4, 1]


def test_what_can_run_at_once_does_not_fill_the_queue(model):
    *answered, refused = rows_of_runs(model, RUNS_AT_A_TIME + 3, max_rows=None, max_waiting=2)
    assert answered == [1] * (RUNS_AT_A_TIME + 2)
    assert isinstance(refused, ServingError)
    assert refused.code == Code.RESOURCE_EXHAUSTED


def test_texts_of_similar_length_run_together(model):
    jobs = [{"text": np.array([b"x" * length], object)} for length in (3, 100, 4, 90)]
    assert answers(model, "longest", "longest", jobs, max_rows=2, max_waiting=10) == [4, 100, 4, 100]


def test_parts_of_a_large_request_keep_their_order_whichever_is_done_first(model):
    class FirstIsLast:
        async def run(self, model, signature, inputs, deadline):
            await asyncio.sleep(0.2 * (inputs["x"][0] == 0))
            return {"rows": inputs["x"]}

    predictor, rows = Predictor(FirstIsLast(), max_rows=2), np.arange(7, dtype=np.float32)
    current.set(Request(deadline=time.monotonic() + HANGS))
    found = asyncio.run(predictor.predict(model, model.signature("together"), {"x": rows}))
    assert found["rows"].tolist() == rows.tolist()
