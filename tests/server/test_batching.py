"""Which requests run together."""

import asyncio
import time

import grpc
import numpy as np
import pytest

from keras_bert.server.errors import ServingError
from keras_bert.server.model import RUNS_AT_A_TIME, Model
from keras_bert.server.predicting import Batcher

from .servers import HANGS

ONE_ROW = {"x": np.zeros(1, np.float32)}


@pytest.fixture(scope="module")
def model(toy_model):
    model = Model(toy_model)
    yield model
    model.close()


def rows_of_runs(model, jobs, **limits):
    """Sends `jobs` jobs of one row together. Returns, for each, the number of rows in its run, or its error."""

    async def ask():
        batcher, signature = Batcher(**limits), model.signature("together")
        asked = [batcher.run(model, signature, ONE_ROW, time.monotonic() + HANGS) for _ in range(jobs)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        await batcher.close()
        return [each if isinstance(each, Exception) else int(each["rows"][0]) for each in answers]

    return asyncio.run(ask())


def test_what_arrives_together_is_one_batch(model):
    assert rows_of_runs(model, 5, max_rows=4, max_waiting=10) == [4, 4, 4, 4, 1]


def test_what_can_run_at_once_does_not_fill_the_queue(model):
    *answered, refused = rows_of_runs(model, RUNS_AT_A_TIME + 3, max_rows=None, max_waiting=2)
    assert answered == [1] * (RUNS_AT_A_TIME + 2)
    assert isinstance(refused, ServingError)
    assert refused.code == grpc.StatusCode.RESOURCE_EXHAUSTED
