"""The served OpenAPI description, and requests made from it."""

import httpx
import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from live import live
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from serving import replying, served

from leadout.server.app import make_app
from leadout.server.registry import LoadedModels

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    allow_header_conformance,
]
FEW = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


SCHEMA = schemathesis.openapi.from_dict(make_app(LoadedModels({})).openapi())


@pytest.fixture(scope="module")
def url():
    """Where a server runs."""
    with live(served(replying("Hi.", n_ctx=512), max_queued=100)) as server:
        yield server.url


@SCHEMA.parametrize()
@FEW
def test_every_request_of_the_description_is_answered_as_it_says(case, url):
    if isinstance(case.body, dict) and "model" in case.body:
        case.body["model"] = "toy"  # no other is there, and 404 shows nothing
    case.call_and_validate(base_url=url, checks=CHECKS)


def asked(url, path, method):
    """The answers to what every route can be asked: nothing, no JSON, an empty object, too few fields."""
    yield httpx.request(method, url + path)
    if method == "POST":
        yield httpx.post(url + path, content="{", headers={"Content-Type": "application/json"})
        yield httpx.post(url + path, content="{}", headers={"Content-Type": "text/plain", "Origin": "null"})
        for body in ({}, {"model": "other"}, {"model": "toy"}, {"model": "toy", "input": "x", "prompt": "x"}):
            yield httpx.post(url + path, json=body)
            yield httpx.post(url + path, json=body, headers={"Host": "evil.example"})


@pytest.mark.parametrize("path", [path for path in SCHEMA.raw_schema["paths"] if "{" not in path])
def test_whatever_a_route_is_asked_the_description_has_the_form_of_the_answer(path, url):
    [(method, operation)] = SCHEMA.raw_schema["paths"][path].items()
    for response in asked(url, path, method.upper()):
        told = operation["responses"][str(response.status_code)]["content"]
        kind = response.headers["content-type"].partition(";")[0]
        schema = told[kind].get("schema", {})
        if response.status_code >= 400:
            assert schema, "an error without a form"
        if kind == "application/json":
            jsonschema.validate(response.json(), {**schema, "components": SCHEMA.raw_schema["components"]})


def test_every_route_is_described():
    paths = SCHEMA.raw_schema["paths"]
    assert set(paths) == {
        "/health",
        "/ready",
        "/metrics",
        "/v1/models",
        "/v1/models/{name}",
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/api/chat",
        "/api/generate",
        "/api/tags",
        "/api/show",
        "/api/ps",
        "/api/pull",
        "/api/version",
    }
    chat = SCHEMA.raw_schema["components"]["schemas"]["ChatForm"]
    assert set(chat["required"]) == {"messages", "model"}
    assert chat["additionalProperties"] is False
    assert {"400", "401", "404", "413", "429", "200"} <= set(
        paths["/v1/chat/completions"]["post"]["responses"]
    )
