"""An OpenAI-style server that takes a fixed time per reply; a program that prints its port."""

from __future__ import annotations

import asyncio
import json
import random
import sys

WORDS = [
    "harbor",
    "music",
    "market",
    "coffee",
    "rain",
    "train",
    "bridge",
    "tower",
    "river",
    "garden",
    "night",
    "street",
]


async def serve(seconds: float) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                fields = head.decode().lower().split("\r\n")
                sizes = [line.split(":")[1] for line in fields if line.startswith("content-length")]
                body = json.loads(await reader.readexactly(int(sizes[0]))) if sizes else {}
                if body:
                    await asyncio.sleep(seconds)
                writer.write(_reply(body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _reply(asked: dict[str, int]) -> bytes:
    text = " ".join(random.Random(asked.get("seed")).choices(WORDS, k=8))
    choice = {"message": {"content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 8, "completion_tokens": 8}
    body = json.dumps({"choices": [choice], "usage": usage, "data": []}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
