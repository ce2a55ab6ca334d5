"""A server of Python's own http.server around ONNX Runtime, for benchmarks/serve.py: the simplest there is.

python _onnx_server.py MODEL.onnx

Prints its port. It answers {"instances": [text, ...]} with {"predictions": [vector, ...]}, a thread a connection.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from _minilm_onnx import session, tokenizer, vectors


def main(model: str) -> None:
    run, encode = session(model), tokenizer().encode_batch

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # connections stay open
        disable_nagle_algorithm = True  # else each answer waits for the client's acknowledgement of its headers

        def do_POST(self) -> None:
            texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["instances"]
            found = vectors(run, [each.ids for each in encode(texts)])
            answer = json.dumps({"predictions": found.tolist()}).encode()
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
