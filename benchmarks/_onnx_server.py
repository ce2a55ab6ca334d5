"""A bare handler of aiohttp around ONNX Runtime, for benchmarks/serve.py: the simplest server that there is.

python _onnx_server.py MODEL.onnx

Prints its port. It answers {"instances": [text, ...]} with {"predictions": [vector, ...]}, one request at a time.
"""

import asyncio
import sys

from _minilm_onnx import session, tokenizer, vectors
from aiohttp import web


async def serve(model: str) -> None:
    run, encode = session(model), tokenizer().encode_batch

    async def predict(request: web.Request) -> web.Response:
        texts = (await request.json())["instances"]
        found = vectors(run, [each.ids for each in encode(texts)])
        return web.json_response({"predictions": found.tolist()})

    application = web.Application()
    application.router.add_post("/", predict)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"port {runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
