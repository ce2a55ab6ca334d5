"""The clients of benchmarks/serve.py, in a process of their own and without TensorFlow.

Reads jobs from standard input, a line of JSON each, and answers each with a line: the seconds that every request took.
"""

import asyncio
import base64
import itertools
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator

import aiohttp
import grpc

PREDICT = "/tensorflow.serving.PredictionService/Predict"

Send = Callable[[bytes], Awaitable[object]]  # sends a request as it is, and waits for the whole answer


async def closed_loop(send: Send, bodies: Iterator[bytes], clients: int, seconds: float) -> list[float]:
    """Every client sends its next request as soon as it has the answer to the last."""
    latencies = []
    end = time.perf_counter() + seconds

    async def client() -> None:
        while (start := time.perf_counter()) < end:
            await send(next(bodies))
            latencies.append(time.perf_counter() - start)

    await asyncio.gather(*(client() for _ in range(clients)))
    return latencies


async def over_grpc(target: str, *arguments) -> list[float]:
    async with grpc.aio.insecure_channel(target) as channel:
        call = channel.unary_unary(PREDICT)  # bytes to bytes: a client's own work is not what is measured
        return await closed_loop(call, *arguments)


async def over_rest(target: str, *arguments) -> list[float]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def send(body: bytes) -> None:
            async with session.post(target, data=body) as response:
                response.raise_for_status()
                await response.read()

        return await closed_loop(send, *arguments)


def main() -> None:
    for line in sys.stdin:
        job = json.loads(line)
        bodies = itertools.cycle([base64.b64decode(body) for body in job["bodies"]])
        run = {"gRPC": over_grpc, "REST": over_rest}[job["protocol"]]
        start = time.perf_counter()
        latencies = asyncio.run(run(job["target"], bodies, job["clients"], job["seconds"]))
        print(json.dumps({"latencies": latencies, "seconds": time.perf_counter() - start}), flush=True)


if __name__ == "__main__":
    main()
