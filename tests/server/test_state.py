"""Health, metrics and logs."""

import asyncio
import json
import logging

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from prometheus_client.parser import text_string_to_metric_families
from serving import HELLO, client_of, replying, served

from leadout.server.logs import LineFormatter
from leadout.server.options import ServerOptions
from leadout.testing import ScriptedDrafter

SAID = "0123456789" * 3


def asked(*bodies, drafter=None, path="/v1/chat/completions", options=None):
    """The metrics after these requests, by name and labels."""

    async def ask():
        async with client_of(served(replying(SAID), drafter, k=4), options=options) as client:
            for body in bodies:
                await client.post(path, json={"model": "toy", "messages": HELLO, "temperature": 0, **body})
            assert (await client.get("/health")).json() == {"status": "ok"}
            assert (await client.get("/ready")).json() == {"status": "ready"}
            return (await client.get("/metrics")).text

    values = {}
    for family in text_string_to_metric_families(asyncio.run(ask())):
        for sample in family.samples:
            labels = ",".join(f"{name}={sample.labels[name]}" for name in sorted(sample.labels))
            values[f"{sample.name}{{{labels}}}"] = sample.value
    return values


def test_metrics_count_what_happened():
    drafter = ScriptedDrafter.partly_right([*SAID.encode(), 257], 2, 256)
    values = asked({}, {"stream": True}, {"bad": 1}, drafter=drafter)
    route = "route=/v1/chat/completions"
    assert values[f"leadout_requests_total{{{route},status=200}}"] == 2
    assert values[f"leadout_requests_total{{{route},status=400}}"] == 1
    assert values["leadout_completion_tokens_total{model=toy}"] == 2 * len(SAID)
    drafted = values["leadout_drafted_tokens_total{drafter=scripted,model=toy}"]
    accepted = values["leadout_accepted_tokens_total{drafter=scripted,model=toy}"]
    positions = [f"drafter=scripted,model=toy,position={at}" for at in range(1, 5)]
    assert sum(values[f"leadout_drafted_at_total{{{each}}}"] for each in positions) == drafted
    assert [values.get(f"leadout_accepted_at_total{{{each}}}", 0) for each in positions[2:]] == [0, 0]
    assert sum(values.get(f"leadout_accepted_at_total{{{each}}}", 0) for each in positions) == accepted
    assert 0 < accepted < drafted
    passes = values["leadout_target_passes_total{model=toy}"]
    assert passes == values["leadout_round_tokens_count{model=toy}"] < 2 * len(SAID)
    assert values["leadout_cached_prompt_tokens_total{model=toy}"] > 0  # of the second request
    prompt = values["leadout_prompt_tokens_total{model=toy}"]
    assert prompt == 2 * (3 + len("user\nhello\nassistant\n"))
    assert values["leadout_first_token_seconds_count{model=toy}"] == 2
    assert values["leadout_round_seconds_total{model=toy,part=verify}"] > 0
    assert values["leadout_slots{model=toy}"] == 1
    assert values["leadout_requests_queued{model=toy}"] == 0
    assert values["leadout_kv_capacity_tokens{model=toy}"] == 8192


def logged(caplog, path="/v1/chat/completions", options=None, **fields):
    caplog.set_level(logging.INFO, "leadout.server")
    asked(fields, path=path, options=options)
    [record] = [record for record in caplog.records if record.getMessage() == "request"]
    return record


def test_a_request_is_one_line_without_its_text(caplog):
    record = logged(caplog, stream=True)
    told = json.loads(LineFormatter("json").format(record))
    assert told["event"] == "request"
    assert (told["method"], told["route"], told["status"]) == ("POST", "/v1/chat/completions", 200)
    assert (told["model"], told["stream"], told["finish"]) == ("toy", True, ["stop"])
    assert told["completion_tokens"] == len(SAID)
    assert told["target_passes"] == len(SAID) + 1
    assert "hello" not in json.dumps(told)
    assert SAID not in json.dumps(told)
    line = LineFormatter("text").format(record)
    assert "\n" not in line
    assert "status=200" in line
    assert 'finish=["stop"]' in line


def test_text_is_logged_where_that_was_asked_for(caplog):
    record = logged(caplog, options=ServerOptions(log_prompts=True))
    assert record.fields["prompts"] == [HELLO]
    assert record.fields["answers"] == [SAID]
    assert "hello" in LineFormatter("json").format(record)


def test_a_span_tells_of_the_request_and_not_its_text():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    async def ask():
        async with client_of(served(replying(SAID)), tracer_provider=provider) as client:
            await client.post("/v1/chat/completions", json={"model": "toy", "messages": HELLO})

    asyncio.run(ask())
    [span] = [each for each in exporter.get_finished_spans() if each.kind is SpanKind.SERVER]
    assert span.attributes["leadout.completion_tokens"] == len(SAID)
    assert "hello" not in str(span.attributes)


def test_refused_requests_are_logged_too(caplog):
    assert logged(caplog, bad=1).fields["status"] == 400


def test_unknown_routes_do_not_make_new_metrics(caplog):
    assert logged(caplog, path="/v1/made/up").fields["route"] == "other"
