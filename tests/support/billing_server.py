"""An OpenAI-style server in a process of its own that keeps a ledger of what it bills.

Run it as a program: it prints its port. ``GET /ledger`` returns every request that it billed. While the
file named by its argument exists, the eighth request waits.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

LONGEST = 0.15
"""Seconds; replies take up to this long."""


class Ledger:
    """The bills, by request; times are on the monotonic clock, which all processes share."""

    def __init__(self) -> None:
        self.bills: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def open(self, prompt: str) -> dict[str, Any]:
        with self._lock:
            number = len(self.bills)
            tokens = 3 + number % 9
            bill = {"id": number, "prompt": prompt, "tokens": tokens, "arrived": time.monotonic()}
            self.bills.append(bill)
        return bill


def handler(ledger: Ledger, hold: Path) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(ledger.bills if self.path == "/ledger" else {"data": []})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            bill = ledger.open(asked["messages"][-1]["content"])
            if bill["id"] == 7:
                while hold.exists():
                    time.sleep(0.01)
            time.sleep(random.uniform(0, LONGEST) ** 2 / LONGEST)
            text = f"bill-{bill['id']} " + "abcdefgh"[bill["id"] % 8] * (1 + bill["id"] % 5)
            usage = {"prompt_tokens": 0, "completion_tokens": bill["tokens"]}
            choice = {"message": {"content": text}, "finish_reason": "stop"}
            self._send({"choices": [choice], "usage": usage})
            bill["answered"] = time.monotonic()

        def _send(self, content: Any) -> None:
            body = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the terminal quiet."""

        def handle(self) -> None:
            try:
                super().handle()
            except ConnectionError:
                self.close_connection = True

    return Handler


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), handler(Ledger(), Path(sys.argv[1])))
    print(server.server_address[1], flush=True)
    server.serve_forever(poll_interval=0.05)
