"""The server over real sockets, in a process of its own."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import httpx
import pytest

from eagle_assets.sandbox.outputs import true_output
from eagle_assets.sandbox.process import SandboxFailed, running_sandbox
from eagle_assets.sandbox.server import Sandbox

MODEL = "moonshotai/kimi-k2.5"
EAGLE_ASSETS = str(Path(sys.executable).with_name("eagle-assets"))
KEY = {"Authorization": "Bearer sandbox"}


def asked(text="What is 12 × 13?", **more):
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 500, **more}


@pytest.fixture
def truth_file(tmp_path):
    return tmp_path / "truth.jsonl"


@pytest.fixture
def client(truth_file):
    with running_sandbox(truth_file) as base_url, httpx.Client(base_url=base_url, headers=KEY, timeout=20) as client:
        yield client


def truths(path):
    return {row["exchange_id"]: row for row in map(json.loads, path.read_text(encoding="utf-8").splitlines())}


def books(client):
    return client.get(f"http://{client.base_url.host}:{client.base_url.port}/sandbox/books").json()


def test_an_answer_its_generation_its_truth_and_its_bill(client, truth_file):
    request = asked(provider={"only": ["lakeside"]})
    response = client.post("/chat/completions", json=request)
    assert response.status_code == 200
    assert response.content.startswith(b"\n         \n")
    body = response.json()
    assert body["id"] == response.headers["X-Generation-Id"]
    assert body["provider"] == "Lakeside"
    assert body["usage"]["completion_tokens"] == len(true_output(request))

    assert truths(truth_file)[body["id"]] == {
        "exchange_id": body["id"],
        "provider": "Lakeside",
        "true_ids": true_output(request),
        "finish_reason": "stop",
    }
    assert client.get("/generation", params={"id": body["id"]}).status_code == 404
    generation = client.get("/generation", params={"id": body["id"]}).json()["data"]
    assert generation["native_tokens_completion"] == body["usage"]["completion_tokens"]
    assert generation["total_cost"] == body["usage"]["cost"]
    key = client.get("/key").json()["data"]
    assert key["usage"] == books(client)["billed_usd"] == body["usage"]["cost"]
    assert key["limit_remaining"] == pytest.approx(100 - key["usage"])


def test_a_stream_ends_with_usage_and_done(client):
    request = asked(stream=True, provider={"only": ["harbour"]})
    with client.stream("POST", "/chat/completions", json=request) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = [line for line in response.iter_lines() if line]
    assert events[0] == ": OPENROUTER PROCESSING"
    assert events[-1] == "data: [DONE]"
    assert json.loads(events[-2].removeprefix("data: "))["usage"]["completion_tokens"] == len(true_output(request))


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"messages": []}, 400, "messages"),
        ({"messages": [{"role": "robot", "content": "hi"}]}, 400, "robot"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"model": "someone/else"}, 400, "valid model"),
        ({"tools": 3}, 400, "tools"),
        ({"provider": {"only": ["nobody"]}}, 404, "No allowed providers"),
        ({"provider": {"ignore": ["baseten"], "only": ["baseten"]}}, 404, "No allowed providers"),
    ],
)
def test_requests_that_cannot_be_answered(change, status, words):
    response = ask_in_process(Sandbox(), asked() | change)
    assert response.status_code == status
    assert response.json()["error"]["code"] == status
    assert words in response.json()["error"]["message"]


def test_a_key_is_needed_and_credit_too():
    assert ask_in_process(Sandbox(), asked(), headers={}).status_code == 401
    assert ask_in_process(Sandbox(credit_usd=Decimal(0)), asked()).status_code == 402


def ask_in_process(sandbox, request, headers=KEY):
    async def ask():
        transport = httpx.ASGITransport(app=sandbox.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://sandbox/api/v1", headers=headers) as client:
            return await client.post("/chat/completions", json=request)

    return asyncio.run(ask())


def test_a_body_that_is_no_json(client):
    assert client.post("/chat/completions", content=b"{").status_code == 400


def test_endpoints_with_prices_as_text(client):
    endpoints = client.get(f"/models/{MODEL}/endpoints").json()["data"]["endpoints"]
    prices = {endpoint["provider_name"]: endpoint["pricing"] for endpoint in endpoints}
    assert prices["Lakeside"]["prompt"] == "0.0000004"
    assert {e["quantization"] for e in endpoints if e["provider_name"] in ("Fireworks", "BaseTen")} == {"nvfp4", "fp4"}
    assert client.get("/models/someone/else/endpoints").status_code == 404


def test_habits_show_and_are_not_billed(client, truth_file):
    def statuses(slug, times):
        request = asked(provider={"only": [slug]})
        return [client.post("/chat/completions", json=request) for _ in range(times)]

    limited = statuses("lakeside", 9)[-1]
    assert (limited.status_code, limited.headers["Retry-After"]) == (429, "1")
    assert limited.json()["error"]["metadata"]["provider_name"] == "Lakeside"
    assert statuses("harbour", 11)[-1].status_code == 502
    inside = statuses("tundra", 13)[-1]
    assert (inside.status_code, inside.json()["error"]["code"]) == (200, 503)
    assert len(truths(truth_file)) == len(books(client)["generations"]) == 8 + 10 + 12


def test_one_stream_breaks_off_and_is_billed_all_the_same(client):
    request = asked(stream=True, provider={"only": ["meridian"]})
    for _ in range(4):
        assert client.post("/chat/completions", json=request).content.endswith(b"data: [DONE]\n\n")
    with pytest.raises(httpx.RemoteProtocolError):
        client.post("/chat/completions", json=request)
    assert client.post("/chat/completions", json=request).content.endswith(b"data: [DONE]\n\n")
    assert len(books(client)["generations"]) == 6


def test_a_taken_port_is_said(truth_file):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SandboxFailed, match=str(port)), running_sandbox(truth_file, port):
            pass


def test_the_process_ends_with_the_block_and_with_its_parent(truth_file):
    with running_sandbox(truth_file) as base_url:
        assert httpx.get(f"{base_url}/key", headers=KEY).status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{base_url}/key", headers=KEY)

    script = (
        "import pathlib, sys, time\nfrom eagle_assets.sandbox.process import running_sandbox\n"
        "with running_sandbox(pathlib.Path(sys.argv[1])) as url:\n    print(url, flush=True)\n    time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script, str(truth_file)], stdout=subprocess.PIPE, text=True)
    with parent:
        base_url = parent.stdout.readline().strip()
        url = httpx.URL(base_url)
        with socket.create_connection((url.host, url.port)) as connection:
            os.kill(parent.pid, signal.SIGKILL)
            connection.settimeout(30)
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(1) == b""  # the sandbox has gone, and with it the connection
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{base_url}/key", headers=KEY)


def test_the_command_says_what_to_export():
    command = [EAGLE_ASSETS, "sandbox", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}
    ) as run:
        lines = [run.stdout.readline() for _ in range(4)]
        base_url = lines[2].strip().removeprefix("export OPENROUTER_BASE_URL=")
        assert httpx.get(f"{base_url}/key", headers=KEY).status_code == 200
        assert lines[3].strip() == "export OPENROUTER_API_KEY=sandbox"
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=30) == 0


def test_the_command_names_a_taken_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        run = subprocess.run([EAGLE_ASSETS, "sandbox", "--port", port], capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stderr == f"Error: port {port} cannot be used (Address already in use); choose another with --port\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--fault", "stall=0"], "'stall=0' is no fault; write NAME=N, where NAME is one of excluded, "),
        (["--fault", "stal=2"], "'stal=2' is no fault"),
        (["--replay", "empty.jsonl"], "empty.jsonl holds no exchange to replay"),
        (["--replay", "wrong.jsonl"], "wrong.jsonl, line 2 is no exchange: "),
        (["--truth", "nowhere/truth.jsonl"], "the folder nowhere does not exist; make it first"),
        (["--truth", "empty.jsonl", "--replay", "empty.jsonl"], "empty.jsonl is an input too"),
    ],
)
def test_mistakes_are_said_before_it_serves(tmp_path, arguments, sentence):
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "wrong.jsonl").write_text('{"exchange_id": "a", "body": ""}\nhello\n')
    command = [EAGLE_ASSETS, "sandbox", "--port", "0", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {sentence}")
    assert done.stdout == ""
