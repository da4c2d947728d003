"""`leadout serve` in a process of its own, asked over HTTP and ended by signals."""

import re
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress

import httpx
import pytest
from commands import COMMAND, assert_one_line, environment, leadout, start

LITTLE = ("--threads", "1", "--ctx", "256", "--slots", "2", "--port", "0")
ASKED = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "hello"}],
    "temperature": 0,
    "max_tokens": 8,
}


def served(*arguments, **environment):
    """The process, once it serves, and its address."""
    process = start("serve", *arguments, *LITTLE, **environment)
    said = b""
    while b"Ctrl-C ends it" not in said:
        line = process.stderr.readline()
        assert line, said.decode()
        said += line
    [url] = set(re.findall(r"http://[\d.:]+\d", said.decode()))
    assert f"is at {url}/\n" in said.decode()  # the page
    return process, url


def ended(process, number):
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    return said.decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_model_is_served_until_a_signal(tiny, tiny_draft, number):
    process, url = served(tiny, "--draft", tiny_draft, "-k", "2", "--schedule", "fixed")
    assert httpx.get(f"{url}/ready").json() == {"status": "ready"}
    answer = httpx.post(f"{url}/v1/chat/completions", json=ASKED, timeout=60).json()
    assert answer["usage"]["speculation"]["drafted"] > 0
    plain = httpx.post(f"{url}/v1/chat/completions", json={**ASKED, "speculation": "off"}, timeout=60).json()
    assert plain["choices"] == answer["choices"]
    said = ended(process, number)
    assert process.returncode == 0
    assert "route=/v1/chat/completions status=200" in said
    assert "info stopping: no requests running" in said
    assert "Traceback" not in said


def test_a_running_answer_ends_before_the_server_does(tiny):
    process, url = served(tiny)
    body = {**ASKED, "stream": True, "max_tokens": 200}
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=60) as response:
        lines = response.iter_lines()
        first = next(lines)
        process.send_signal(signal.SIGTERM)
        rest = list(lines)
    assert first.startswith("data: ")
    assert rest[-2] == "data: [DONE]"
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_keys_come_from_the_environment_and_from_a_file(tiny, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# ours\nfrom-file\n\n", encoding="utf-8")
    process, url = served(
        tiny, "--api-key-env", "THE_KEY", "--api-key-file", keys, THE_KEY="from-environment"
    )
    for key, status in (("from-file", 200), ("from-environment", 200), ("other", 401)):
        response = httpx.get(f"{url}/v1/models", headers={"Authorization": f"Bearer {key}"})
        assert response.status_code == status
    said = ended(process, signal.SIGTERM)
    assert "from-file" not in said
    assert "from-environment" not in said


def test_the_name_can_be_chosen_and_logs_can_be_json(tiny):
    process, url = served(tiny, "--name", "mine/tiny:v1", "--log-format", "json")
    assert httpx.get(f"{url}/v1/models/mine/tiny:v1").json()["id"] == "mine/tiny:v1"
    assert '"event": "request"' in ended(process, signal.SIGTERM)


def test_a_port_that_is_taken_is_told(tiny):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = leadout("serve", tiny, "--port", str(port))
    assert_one_line(done, 2, f"cannot listen at 127.0.0.1:{port}", "give another --host or --port")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--api-key-env", "NOT_SET_ANYWHERE"], "NOT_SET_ANYWHERE, which is not set"),
        (["--api-key-file", "nowhere/keys"], "--api-key-file nowhere/keys cannot be read"),
        (["--api-key-file", "/dev/null"], "has no key in it"),
        (["--port", "70000"], "port is 70000"),
        (["--cors", "example"], "CORS origin 'example'"),
        (["--cors", "http://[::1"], "CORS origin 'http://[::1'"),
        (["--host", ".."], "cannot listen at ..:"),
        (["--host", "no.such.host.invalid"], "cannot listen at no.such.host.invalid"),
        (["--slots", "0"], "n_slots is 0"),
        (["--keep-alive", "soon"], "keep_alive is 'soon'; it must be seconds"),
        (["--name", "a\nb"], "--name 'a\\nb' has a line break"),
        (["other.gguf", "--name", "mine"], "--name mine can only be given with one target"),
        (["other.gguf", "--draft", "some.gguf"], "--draft some.gguf is one draft model"),
        (["--models", "nowhere"], "nowhere does not exist"),
    ],
)
def test_mistakes_are_told_before_anything_is_loaded(tiny, arguments, said):
    assert_one_line(leadout("serve", tiny, *arguments), 2, said)


def test_two_signals_end_it_at_once_and_well(tiny):
    process, url = served(tiny, "--grace", "1000")
    body = {**ASKED, "stream": True, "max_tokens": 240, "n": 100}
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=60) as response:
        assert next(response.iter_lines()).startswith("data: ")
        process.send_signal(signal.SIGTERM)
        said = ended(process, signal.SIGINT)
    assert process.returncode == 0
    assert "Traceback" not in said
    assert "finish" in said


def test_it_serves_without_input_and_with_a_log_that_cannot_be_written(tiny):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = [*COMMAND, "serve", str(tiny), *LITTLE[:-1], port]
    starting = ["sh", "-c", 'exec "$@" <&- 2>/dev/full', "sh", *command]
    process = subprocess.Popen(starting, env=environment())
    answer = None
    while answer is None and process.poll() is None:
        with suppress(httpx.ConnectError):
            answer = httpx.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=ASKED, timeout=60)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert answer is not None
    assert answer.status_code == 200


def test_several_models_are_loaded_when_they_are_asked_for(tiny, tiny_draft):
    process, url = served(tiny, tiny_draft, "--keep-alive", "0", "--draft", "suffix")
    assert [each["id"] for each in httpx.get(f"{url}/v1/models").json()["data"]] == ["tiny", "draft"]
    listed = httpx.get(f"{url}/api/tags").json()["models"]
    assert [each["name"] for each in listed] == ["tiny", "draft"]
    assert {each["details"]["family"] for each in listed} == {"llama"}
    assert httpx.get(f"{url}/api/ps").json()["models"] == []
    for name in ("draft", "tiny"):
        body = {"model": name, "prompt": "hello", "raw": True, "stream": False, "keep_alive": -1}
        answer = httpx.post(f"{url}/api/generate", json=body | {"options": {"num_predict": 4}}, timeout=60)
        assert answer.json()["eval_count"] > 0
    running = httpx.get(f"{url}/api/ps").json()["models"]
    assert [each["name"] for each in running] == ["draft", "tiny"]
    for each, file in zip(running, (tiny_draft, tiny), strict=True):
        assert each["size"] > file.stat().st_size  # the cache too
    assert "Traceback" not in ended(process, signal.SIGTERM)
    assert process.returncode == 0


def test_a_draft_model_counts_to_its_target_and_leaves_with_it(tiny, tiny_draft):
    process, url = served(tiny, "--draft", tiny_draft, "-k", "2", "--schedule", "fixed")
    [running] = httpx.get(f"{url}/api/ps").json()["models"]
    assert running["leadout"]["draft"]["name"] == "draft"
    assert running["size"] > running["leadout"]["draft"]["size"] > 0
    for _ in range(2):
        body = {**ASKED, "keep_alive": 0}
        answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60).json()
        assert answer["usage"]["speculation"]["drafted"] > 0
        until_gone(url)
    ended(process, signal.SIGTERM)
    assert process.returncode == 0


def until_gone(url):
    end = time.monotonic() + 30
    while httpx.get(f"{url}/api/ps").json()["models"]:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_folder_is_served_by_the_paths_in_it(tiny, tmp_path):
    (tmp_path / "mine").mkdir()
    shutil.copy(tiny, tmp_path / "mine" / "one.gguf")
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")
    process, url = served("--models", tmp_path)
    assert [each["id"] for each in httpx.get(f"{url}/v1/models").json()["data"]] == ["mine/one"]
    asked = {**ASKED, "model": "mine/one"}
    assert httpx.post(f"{url}/v1/chat/completions", json=asked, timeout=60).is_success
    for name in ("../one", "mine/../mine/one", str(tiny), "broken"):
        refused = httpx.post(f"{url}/v1/chat/completions", json={**ASKED, "model": name})
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
    httpx.post(f"{url}/api/generate", json={"model": "mine/one", "keep_alive": 0})
    until_gone(url)
    (tmp_path / "mine" / "one.gguf").write_bytes(b"GGUF")
    spoilt = httpx.post(f"{url}/v1/chat/completions", json=asked)
    assert spoilt.status_code == 500
    assert "mine/one cannot be loaded" in spoilt.json()["error"]["message"]
    assert httpx.get(f"{url}/health").is_success
    ended(process, signal.SIGTERM)
    assert process.returncode == 0


def test_without_targets_the_caches_are_served(tmp_path):
    environment = {"LEADOUT_CACHE": str(tmp_path), "HF_HOME": str(tmp_path), "OLLAMA_MODELS": str(tmp_path)}
    done = leadout("serve", "--port", "0", **environment)
    assert_one_line(done, 2, "there is no model on this machine to serve; name one")
