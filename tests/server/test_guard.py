"""Keys, host names, sizes and types: what is refused before a route sees it."""

import asyncio
import gzip
import json
import logging

import pytest
from serving import HELLO, client_of, replying, served

from leadout.errors import InputError
from leadout.server.options import ServerOptions

CHAT = {"model": "toy", "messages": HELLO}
KEYS = ServerOptions(api_keys=("first-key", "second-key"))


def call(method, path, options=None, **request):
    async def ask():
        async with client_of(served(replying("Hi.")), options=options) as client:
            return await client.request(method, path, **request)

    return asyncio.run(ask())


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer first-key"},
        {"authorization": "bearer  second-key"},
        {"X-API-Key": "first-key"},
    ],
)
def test_a_known_key_is_let_in(headers):
    assert call("POST", "/v1/chat/completions", KEYS, json=CHAT, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer "},
        {"Authorization": "Basic first-key"},
        {"Authorization": "first-key"},
        {"X-API-Key": b"f\xffrst"},
    ],
)
@pytest.mark.parametrize(
    "path", ["/v1/models", "/metrics", "/v1/chat/completions", "/nowhere", "/openapi.json"]
)
def test_without_a_known_key_nothing_is_told(headers, path):
    response = call("GET", path, KEYS, headers=headers)
    assert response.status_code == 401
    assert response.json()["error"]["type"] == "authentication_error"
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/responses", "/v1/completions", "/api/chat", "/api/generate"]
)
def test_no_route_tells_that_another_key_sent_the_same_prompt(path, caplog):
    caplog.set_level(logging.INFO, "leadout.server")
    texts = {"messages": HELLO, "input": "hello", "prompt": "hello"}
    field = {"/v1/chat/completions": "messages", "/v1/responses": "input", "/api/chat": "messages"}
    name = field.get(path, "prompt")

    async def ask():
        async with client_of(served(replying("Hi.", n_slots=2)), options=KEYS) as client:
            body = {"model": "toy", name: texts[name]} | ({"stream": False} if "/api/" in path else {})
            for key in ("first-key", "first-key", "second-key"):
                headers = {"Authorization": f"Bearer {key}"}
                assert (await client.post(path, json=body, headers=headers)).status_code == 200

    asyncio.run(ask())
    cached = [record.fields["cached_tokens"] for record in caplog.records if "cached_tokens" in record.fields]
    assert cached[0] == cached[2] == 0
    assert cached[1] > 0


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_health_needs_no_key(path):
    assert call("GET", path, KEYS).status_code == 200


def test_keys_are_never_logged(caplog):
    caplog.set_level(logging.DEBUG, "leadout.server")
    call("POST", "/v1/chat/completions", KEYS, json=CHAT, headers={"Authorization": "Bearer first-key"})
    assert any(record.fields["status"] == 200 for record in caplog.records)
    assert "first-key" not in json.dumps([record.__dict__ for record in caplog.records], default=str)


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:8080", "LOCALHOST"])
def test_loopback_names_are_let_in(host):
    assert call("GET", "/v1/models", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "10.0.0.1"]
)
def test_a_page_of_another_site_cannot_come_by_its_own_name(host):
    response = call("GET", "/v1/models", headers={"Host": host})
    assert response.status_code == 403
    assert "start it with --allowed-host" in response.json()["error"]["message"]


def test_other_names_can_be_allowed_and_open_servers_take_all():
    named = {"headers": {"Host": "box.lan"}}
    assert call("GET", "/health", ServerOptions(allowed_hosts=("box.lan",)), **named).status_code == 200
    assert call("GET", "/health", ServerOptions(host="0.0.0.0"), **named).status_code == 200


def test_browsers_of_other_origins_are_let_in_only_when_asked():
    origin = {"Origin": "https://app.example"}
    preflight = {**origin, "Access-Control-Request-Method": "POST"}
    allowed = ServerOptions(cors_origins=("https://app.example",), api_keys=("k",))
    assert "access-control-allow-origin" not in call("GET", "/v1/models", headers=origin).headers
    assert "access-control-allow-origin" not in call("OPTIONS", "/v1/models", headers=preflight).headers
    told = call("OPTIONS", "/v1/chat/completions", allowed, headers=preflight)
    assert (told.status_code, told.headers["access-control-allow-origin"]) == (200, "https://app.example")
    other = call(
        "OPTIONS", "/v1/chat/completions", allowed, headers={**preflight, "Origin": "https://e.example"}
    )
    assert "access-control-allow-origin" not in other.headers


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "the body is not JSON"),
        (b"", "must be a JSON object"),
        (b"[]", "must be a JSON object"),
        (b'"text"', "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b"\xff\xfe{}", ""),
        (b"[" * 100_000, ""),
        (b'{"model": NaN}', "model"),
        (b'{"model": "toy", "messages": [{"role": "user", "content": "\\ud800"}]}', "surrogate"),
        (b'{"model": "toy", "messages": ' + b"[" * 900 + b"]" * 900 + b"}", "messages[0]"),
        (
            b'{"model": "toy", "messages": [{"role": "user", "content": "x"}], "temperature": 1e999}',
            "temperature",
        ),
        (
            b'{"model": "toy", "messages": [{"role": "user", "content": "x"}], "seed": 1'
            + b"0" * 5000
            + b"}",
            "",
        ),
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/responses"])
def test_broken_bodies_get_a_clear_answer(path, body, said):
    response = call("POST", path, content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400, response.text
    assert said in response.json()["error"]["message"] or path != "/v1/chat/completions"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_bodies_that_a_page_could_send_by_itself_are_refused(kind):
    headers = {} if kind is None else {"Content-Type": kind}
    response = call("POST", "/v1/chat/completions", content=json.dumps(CHAT), headers=headers)
    assert response.status_code == 415
    assert "application/json" in response.json()["error"]["message"]


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_body_that_is_too_large_is_refused(is_announced):
    async def pieces():
        for _ in range(100):
            yield b" " * 1000

    content = b" " * 100_000 if is_announced else pieces()
    options = ServerOptions(max_body_mb=0.01)
    response = call(
        "POST", "/v1/chat/completions", options, content=content, headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 413
    assert "larger than 10485 bytes" in response.json()["error"]["message"]


def test_a_body_that_comes_too_slowly_is_refused():
    async def pieces():
        yield b"{"
        await asyncio.sleep(30)

    options = ServerOptions(body_timeout_s=0.05)
    response = call(
        "POST",
        "/v1/chat/completions",
        options,
        content=pieces(),
        headers={"Content-Type": "application/json"},
    )
    assert response.status_code == 408
    assert "within 0.05 seconds" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "unknown_route"),
        ("GET", "/v1/chat/completions", 405, None),
        ("DELETE", "/v1/models", 405, None),
        ("POST", "/v1/chat", 404, "unknown_route"),
        ("PUT", "/v1/chat/completions", 405, None),
        ("PATCH", "/health", 405, None),
    ],
)
def test_unknown_routes_and_methods_are_told(method, path, status, code):
    response = call(method, path, **({"json": {}} if method == "POST" else {}))
    assert response.status_code == status
    assert response.json()["error"]["code"] == code


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("DELETE", "/v1/models", "GET"), ("GET", "/v1/responses", "POST"), ("TRACE", "/api/chat", "POST")],
)
def test_a_wrong_method_is_told_the_right_one(method, path, allowed):
    assert allowed in call(method, path).headers["allow"]


@pytest.mark.parametrize(
    "path", ["/health", "/ready", "/metrics", "/v1/models", "/v1/models/toy", "/api/tags"]
)
def test_what_can_be_fetched_can_be_looked_for_with_head(path):
    assert call("HEAD", path).status_code == 200


@pytest.mark.parametrize("path", ["/v1/completions", "/api/generate", "/api/show"])
@pytest.mark.parametrize("coding", ["gzip", "br", "gzip, identity"])
def test_an_encoded_body_is_refused_by_its_coding(path, coding):
    body = gzip.compress(json.dumps(CHAT).encode())
    headers = {"Content-Type": "application/json", "Content-Encoding": coding}
    response = call("POST", path, content=body, headers=headers)
    assert response.status_code == 415
    assert coding in response.text


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/api/chat"])
@pytest.mark.parametrize("padding", [0, 20_000])
@pytest.mark.parametrize(
    "body",
    [
        '{"model": "toy", "temperature": 0, "temperature": 2',
        '{"model": "toy", "metadata": {"temperature": "0", "temperature": "2"}',
        '{"model": "toy", "tools": [{"deep": [{"temperature": null, "temperature": null}]}]',
    ],
)
def test_what_a_body_says_twice_is_refused_by_name(path, padding, body):
    body += "}" + " " * padding
    response = call("POST", path, content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert "'temperature' twice in one object" in response.text


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"\xff\xfe{}", "the body is not JSON"),
        (b"[" * 100_000, "the body is nested too deeply"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "the body is not JSON"),
        (b"{" + b" " * 20_000, "the body is not JSON"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/responses", "/api/chat", "/api/show", "/api/pull"])
def test_what_is_no_json_is_told_as_such(path, body, said):
    response = call("POST", path, content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert said in response.text
    assert '"code":"invalid_json"' in response.text


@pytest.mark.parametrize(
    "name", ["toy", "aaa/llava:13b", "hf.co/u/r:Q4_K_M", "/my/llms/m", "a b?c#d%e", "../x"]
)
def test_every_listed_model_can_be_fetched(name):
    async def ask():
        async with client_of(served(replying("Hi."), name=name)) as client:
            [listed] = (await client.get("/v1/models")).json()["data"]
            assert listed["id"] == name
            raw = name.replace("%", "%25").replace("?", "%3F").replace("#", "%23").replace("..", "%2E%2E")
            for written in (raw, raw.replace("/", "%2F")):
                response = await client.get(f"http://localhost/v1/models/{written}")
                assert response.json() == listed, written
            chat = await client.post("/v1/chat/completions", json=CHAT | {"model": name})
            assert chat.json()["choices"][0]["message"]["content"] == "Hi."
            for path in ("/v1/models/other", "/v1/models/a/b", "/v1/models/%2e%2e%2fetc"):
                missing = await client.get(path)
                assert (missing.status_code, missing.json()["error"]["code"]) == (404, "model_not_found")

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"host": ""}, "host is empty"),
        ({"port": 65536}, "port is 65536; it must be a whole number in 0..65535"),
        ({"max_queued": -1}, "max_queued is -1"),
        ({"max_body_mb": 0}, "max_body_mb is 0"),
        ({"body_timeout_s": 0}, "body_timeout_s is 0"),
        ({"send_timeout_s": float("nan")}, "send_timeout_s is nan"),
        ({"request_timeout_s": -1}, "request_timeout_s is -1"),
        ({"grace_s": -1}, "grace_s is -1"),
        ({"log_format": "xml"}, "log_format is 'xml'"),
        ({"api_keys": (" ",)}, "an API key is empty"),
        ({"cors_origins": ("app.example",)}, "CORS origin 'app.example' is no origin"),
        ({"cors_origins": ("http://a:b",)}, "CORS origin 'http://a:b' is no origin"),
        ({"cors_origins": ("http://a#b",)}, "CORS origin 'http://a#b' is no origin"),
        ({"cors_origins": ("http://me@a",)}, "CORS origin 'http://me@a' is no origin"),
    ],
)
def test_options_are_checked(options, said):
    with pytest.raises(InputError, match="^" + said.replace("(", r"\(").replace(".", r"\.")):
        ServerOptions(**options)


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        ("127.0.0.1", True),
        ("127.3.2.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("box", False),
    ],
)
def test_loopback_addresses_are_known(host, is_loopback):
    assert ServerOptions(host=host).is_loopback is is_loopback
