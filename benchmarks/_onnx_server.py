"""A server of Python's own http.server around ONNX Runtime, for benchmarks/serve.py: the simplest there is.

python _onnx_server.py MODEL.onnx TOKENIZER.json

Prints its port. It answers {"instances": [text, ...]} with {"predictions": [vector, ...]}, a thread a connection.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import onnxruntime
import tokenizers


def main(model: str, vocabulary: str) -> None:
    tokenizer = tokenizers.Tokenizer.from_file(vocabulary)
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding()
    run = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run

    def vectors(texts: list[str]) -> np.ndarray:
        encodings = tokenizer.encode_batch(texts)
        ids = np.array([each.ids for each in encodings])
        mask = np.array([each.attention_mask for each in encodings])
        hidden = run(None, {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)})[0]
        sums = np.einsum("bsh,bs->bh", hidden, mask.astype(np.float32))
        return sums / np.linalg.norm(sums, axis=1, keepdims=True)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # connections stay open
        disable_nagle_algorithm = True  # else each answer waits for the client's acknowledgement of its headers

        def do_POST(self) -> None:
            texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["instances"]
            answer = json.dumps({"predictions": vectors(texts).tolist()}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"port {server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
