"""The server of `collect.py`: answers at once with a stream made beforehand, so that the client is what is measured."""

from __future__ import annotations

import asyncio
import json
import socket
import sys

PROVIDER = "Lakeside"
MODEL = "moonshotai/kimi-k2.5"
PRICES = {"prompt": "0.0000004", "completion": "0.0000016"}
FRAMES_PER_WRITE = 25
PLACE_OF_ID = b"gen-000000000000"


def frame(delta: dict[str, object], finish: str | None = None, **more: object) -> bytes:
    """One event, as OpenRouter words it."""
    choice = {"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": finish}
    head = {"id": PLACE_OF_ID.decode(), "object": "chat.completion.chunk", "model": MODEL, "provider": PROVIDER}
    document = {**head, "choices": [{**choice, "native_finish_reason": finish}], **more}
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


def answer(tokens: int) -> list[bytes]:
    """The chunks of an answer of so many tokens, one a frame: half of them reasoning."""
    thoughts, words = tokens // 2, tokens - tokens // 2 - 2
    frames = [frame({"content": "", "reasoning": " so"}) for _ in range(thoughts)]
    frames += [frame({"content": " yes"}) for _ in range(words)]
    cost = 20 * float(PRICES["prompt"]) + tokens * float(PRICES["completion"])
    usage = {"prompt_tokens": 20, "completion_tokens": tokens, "total_tokens": 20 + tokens, "cost": cost}
    frames += [frame({"content": ""}, "stop"), frame({"content": ""}, "stop", usage=usage), b"data: [DONE]\n\n"]
    events = [b": OPENROUTER PROCESSING\n\n"]
    events += [b"".join(frames[i : i + FRAMES_PER_WRITE]) for i in range(0, len(frames), FRAMES_PER_WRITE)]
    return [b"%x\r\n%b\r\n" % (len(event), event) for event in events] + [b"0\r\n\r\n"]


class Connection(asyncio.Protocol):
    """Reads requests by their Content-Length and answers each; as little HTTP as the clients under test need."""

    chunks: tuple[bytes, ...] = ()
    answered = 0

    def __init__(self) -> None:
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end].lower()
            _, _, length = head.partition(b"content-length:")
            size = int(length.split(b"\r\n")[0]) if length else 0
            if len(self._received) < end + 4 + size:
                return
            self._received = self._received[end + 4 + size :]
            self._answer(head.split(b" ")[1])

    def _answer(self, path: bytes) -> None:
        if not path.endswith(b"/chat/completions"):
            self._send_json(self._document(path))
            return
        Connection.answered += 1
        name = b"gen-%012d" % Connection.answered
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Generation-Id: %b\r\n" % name
        self._transport.write(head + b"Transfer-Encoding: chunked\r\n\r\n")
        loop = asyncio.get_running_loop()
        for chunk in self.chunks:  # each in a turn of its own, as tokens come in the course of time
            loop.call_soon(self._transport.write, chunk.replace(PLACE_OF_ID, name))

    def _document(self, path: bytes) -> object:
        if path.endswith(b"/endpoints"):
            endpoint = {"provider_name": PROVIDER, "tag": "lakeside/int4", "quantization": "int4", "pricing": PRICES}
            return {"data": {"id": MODEL, "endpoints": [endpoint]}}
        return {"data": {"usage": 0.0}}

    def _send_json(self, document: object) -> None:
        body = json.dumps(document).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        self._transport.write(head + body)


async def serve(tokens: int) -> None:
    """Serve answers of so many tokens on a free port, which is printed, for ever."""
    Connection.chunks = tuple(answer(tokens))
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    server = await asyncio.get_running_loop().create_server(Connection, sock=listener)
    print(listener.getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
