"""Local servers that answer in the forms the engines document; each around a `FakeModel`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from fake_model import FakeModel

Json = dict
Answer = tuple[int, str, str]  # status, content type, content
JSON, TEXT, HTML = "application/json", "text/plain", "text/html"


@dataclass
class FakeServer:
    """What all have in common: a model, a key, and ways to go wrong."""

    model: FakeModel = field(default_factory=FakeModel)
    key: str = ""
    dies: bool = False  # after two chunks of a stream
    server_header: str = "uvicorn"
    seen: list[Json] = field(default_factory=list)
    lines: str = "sse"

    def get(self, path: str) -> Answer | None:
        return None

    def post(self, path: str, body: Json) -> list[Json] | Answer | None:
        return None

    def metrics(self, prefix: str, **values: float) -> str:
        return "".join(
            f"# TYPE {prefix}{name} counter\n{prefix}{name}_total {v}\n" for name, v in values.items()
        )

    def refuse(self, text: str) -> Answer:
        return 400, JSON, json.dumps({"error": {"message": text}})


def completions(server: FakeServer, body: Json, *, text_key: str = "text") -> tuple[list[int], int, int]:
    """An answer to the fields that the OpenAI form has."""
    prompt = body["prompt"]
    ids = list(prompt) if isinstance(prompt, list) else server.model.ids(prompt)
    drafts = body.get("speculation") != "off" and body.get("draft_model", "") is not None
    return server.model.answer(
        ids, body["max_tokens"], body["temperature"], body.get("min_p", 0.0), drafts=drafts
    )


def openai_chunks(
    server: FakeServer,
    body: Json,
    usage: Json | None = None,
    *,
    with_ids: bool = False,
    more: Json | None = None,
) -> list[Json]:
    """The answer as OpenAI's chunks, or as one object."""
    prompt = body["prompt"]
    ids = list(prompt) if isinstance(prompt, list) else server.model.ids(prompt)
    said, drafted, accepted = completions(server, body)
    usage = {"completion_tokens": len(said), **(usage or {})}
    stream = body.get("stream", False)
    groups = [said[i : i + 3] for i in range(0, len(said), 3)] if stream else [said]
    chunks = []
    for group in groups:
        choice: Json = {"index": 0, "text": "".join(map(server.model.piece, group))}
        if with_ids and body.get("return_token_ids"):
            choice["token_ids"] = group
        if body.get("logprobs"):
            laws = [server.model.law([*ids, *said[:i]]) for i in range(len(group))]
            choice["logprobs"] = {
                "top_logprobs": [{f"token_id:{token}": value for token, value in law.items()} for law in laws]
            }
        chunks.append({"choices": [choice]})
    told = {"usage": usage, **(more or {})}
    for value in told.values():
        for name in ("drafted", "total_draft_tokens_count"):
            if isinstance(value, dict) and name in value:
                value[name] = drafted
        for name in ("accepted", "accepted_draft_tokens_count"):
            if isinstance(value, dict) and name in value:
                value[name] = accepted
    if isinstance(usage.get("speculation"), dict):
        usage["speculation"] |= {"drafted": drafted, "accepted": accepted}
    if not stream:
        return [{**chunks[0], **told}]
    return [*chunks, {"choices": [], **told}]


@dataclass
class FakeVllm(FakeServer):
    """Counters in Prometheus form; those of speculation exist where it is configured."""

    configured: bool = True
    has_stats: bool = True
    per_request: bool = False
    method: str = ""

    def get(self, path):
        model = self.model
        if path == "/v1/models":
            entries = [{"id": "toy", "owned_by": "vllm", "parent": None}]
            entries.append({"id": "toy-adapter", "owned_by": "vllm", "parent": "toy"})
            return 200, JSON, json.dumps({"object": "list", "data": entries})
        if path == "/version":
            return 200, JSON, json.dumps({"version": "0.32.0"})
        if path == "/metrics":
            if not self.has_stats:
                return 200, TEXT, "# HELP python_info x\n# TYPE python_info gauge\npython_info 1\n"
            text = self.metrics("vllm:", generation_tokens=model.tokens, request_success=model.requests)
            if self.configured:
                text += self.metrics(
                    "vllm:spec_decode_num_",
                    drafts=model.rounds,
                    draft_tokens=model.drafted,
                    accepted_tokens=model.accepted,
                )
            return 200, TEXT, text
        if path.startswith("/server_info") and self.method:
            spec = {"method": "draft_model", "rejection_sample_method": self.method}
            return 200, JSON, json.dumps({"vllm_config": {"speculative_config": spec}})
        return None

    def post(self, path, body):
        if path == "/tokenize":
            return [{"tokens": self.model.ids(body["prompt"])}]
        if path != "/v1/completions":
            return None
        if body.get("min_p", 0) > 0 and self.model.min_p == "refused":
            return self.refuse("The min_p and logit_bias sampling parameters are not yet supported")
        more = {"metrics": {"speculative_decoding": {}}} if self.per_request else {}
        before = self.model.drafted, self.model.accepted
        chunks = openai_chunks(self, body, with_ids=True, more=more)
        if self.per_request:
            own = self.model.foreign
            more["metrics"]["speculative_decoding"] |= {
                "num_draft_tokens": self.model.drafted - before[0] - 40 * own,
                "num_accepted_draft_tokens": self.model.accepted - before[1] - 20 * own,
            }
        return chunks


@dataclass
class FakeSglang(FakeServer):
    """/generate with counts per request, cumulative chunks, and the resolved set-up."""

    set_up: Json = field(default_factory=lambda: {"speculative_algorithm": "STANDALONE", "device": "cuda"})

    def get(self, path):
        if path == "/model_info":
            return 200, JSON, json.dumps({"model_path": "toy", "is_generation": True})
        if path == "/server_info":
            return 200, JSON, json.dumps({**self.set_up, "version": "0.5.23", "internal_states": [{}]})
        if path == "/metrics":
            model = self.model
            text = self.metrics("sglang:", generation_tokens=model.tokens, num_requests=model.requests)
            text += "# TYPE sglang:spec_accept_length gauge\nsglang:spec_accept_length 0.0\n"
            return 200, TEXT, text + self.metrics("sglang:", spec_verify_calls=model.rounds)
        return None

    def post(self, path, body):
        if path == "/tokenize":
            return [{"tokens": self.model.ids(body["prompt"])}]
        if path != "/generate":
            return None
        ids = body.get("input_ids") or self.model.ids(body["text"])
        sampling = body["sampling_params"]
        said, drafted, accepted = self.model.answer(
            ids, sampling["max_new_tokens"], sampling["temperature"], sampling.get("min_p", 0.0)
        )
        meta: Json = {"completion_tokens": len(said)}
        if drafted:
            verify = drafted // self.model.k
            meta |= {
                "spec_verify_ct": verify,
                "spec_num_proposed_drafts": drafted,
                "spec_num_correct_drafts": accepted,
                "spec_accept_length": len(said) / verify,
            }
        if body.get("return_logprob"):
            laws = [self.model.law([*ids, *said[:i]]) for i in range(len(said))]
            meta["output_top_logprobs"] = [[[v, token, None] for token, v in law.items()] for law in laws]
        ends = range(3, len(said), 3) if body.get("stream") else []
        return [
            {"text": "".join(map(self.model.piece, said[:end])), "output_ids": said[:end], "meta_info": meta}
            for end in [*ends, len(said)]
        ]


@dataclass
class FakeLlamaServer(FakeServer):
    """/completion with timings, /slots, and /metrics where it was asked for."""

    server_header: str = "llama.cpp"
    types: str = "draft-simple"
    built: bool = True
    has_metrics: bool = True
    has_slots: bool = True
    blank: bool = False

    def get(self, path):
        model = self.model
        if path == "/props":
            return 200, JSON, json.dumps({"default_generation_settings": {}, "build_info": "b11434"})
        if path == "/slots" and self.has_slots:
            slot = {"id": 0, "speculative": self.built, "params": {"speculative.types": f"none,{self.types}"}}
            return 200, JSON, json.dumps([slot])
        if path == "/metrics" and self.has_metrics:
            text = self.metrics("llamacpp:", tokens_predicted=model.tokens)
            return (
                200,
                TEXT,
                text
                + self.metrics(
                    "llamacpp:spec_decode_num_",
                    drafts=model.rounds,
                    draft_tokens=model.drafted,
                    accepted_tokens=model.accepted,
                ),
            )
        if path in ("/slots", "/metrics"):
            return 501, JSON, json.dumps({"error": {"message": "This server does not support it"}})
        return None

    def post(self, path, body):
        if path == "/tokenize":
            return [{"tokens": self.model.ids(body["content"])}]
        if path != "/completion":
            return None
        prompt = body["prompt"]
        ids = list(prompt) if isinstance(prompt, list) else self.model.ids(prompt)
        said, drafted, accepted = self.model.answer(
            ids, body["n_predict"], body["temperature"], body["min_p"]
        )
        timings: Json = {"predicted_n": len(said), "predicted_ms": 10.0}
        if drafted:
            timings |= {"draft_n": drafted, "draft_n_accepted": accepted}
        chunk: Json = {"content": "".join(map(self.model.piece, said)), "tokens": said}
        if body.get("n_probs"):
            chunk["completion_probabilities"] = [
                {
                    "id": token,
                    "top_logprobs": []
                    if self.blank and i > 0
                    else [
                        {"id": each, "logprob": value}
                        for each, value in self.model.law([*ids, *said[:i]]).items()
                    ],
                }
                for i, token in enumerate(said)
            ]
        if not body.get("stream"):
            return [{**chunk, "timings": timings}]
        pieces = [{"content": self.model.piece(token), "tokens": [token]} for token in said]
        return [*pieces, {"content": "", "tokens": [], "stop": True, "timings": timings}]


@dataclass
class FakeTensorrtLlm(FakeServer):
    """Iteration statistics that reading takes away."""

    has_stats: bool = True
    told: tuple[int, int, int] = (0, 0, 0)

    def get(self, path):
        if path == "/v1/models":
            return 200, JSON, json.dumps({"data": [{"id": "toy", "owned_by": "tensorrt_llm"}]})
        if path == "/version":
            return 200, JSON, json.dumps({"version": "1.2.0"})
        if path == "/metrics":
            if not self.has_stats:
                return 200, JSON, "[]"
            now = (self.model.rounds, self.model.drafted, self.model.accepted)
            rounds, drafted, accepted = (a - b for a, b in zip(now, self.told, strict=True))
            self.told = now
            spec = {
                "numRequestsWithDraftTokens": rounds,
                "numDraftTokens": drafted,
                "numAcceptedTokens": accepted,
                "acceptanceLength": 1.0,
            }
            return 200, JSON, json.dumps([{"iter": 1, "specDecodingStats": spec}, {"iter": 2}])
        return None

    def post(self, path, body):
        return openai_chunks(self, body) if path == "/v1/completions" else None


@dataclass
class FakeOllama(FakeServer):
    """Lines of JSON, and a Modelfile."""

    modelfile: str = "FROM toy.gguf\nDRAFT head.gguf\n"
    parameters: str = "draft_num_predict              4\n"
    lines: str = "ndjson"

    def get(self, path):
        if path == "/":
            return 200, TEXT, "Ollama is running"
        if path == "/api/version":
            return 200, JSON, json.dumps({"version": "0.33.0"})
        if path == "/api/ps":
            return 200, JSON, json.dumps({"models": [{"name": "toy:latest"}]})
        return None

    def post(self, path, body):
        if path == "/api/show":
            return [{"modelfile": self.modelfile, "parameters": self.parameters}]
        if path != "/api/generate":
            return None
        options = body["options"]
        ids = self.model.ids(body["prompt"])
        said, _, _ = self.model.answer(ids, options["num_predict"], options["temperature"], options["min_p"])
        told: Json = {"done": True, "eval_count": len(said), "eval_duration": 10}
        if body.get("logprobs"):
            laws = [self.model.law([*ids, *said[:i]]) for i in range(len(said))]
            told["logprobs"] = [
                {"top_logprobs": [{"token": self.model.piece(t), "logprob": v} for t, v in law.items()]}
                for law in laws
            ]
        if not body["stream"]:
            return [{"response": "".join(map(self.model.piece, said)), **told}]
        return [
            *({"response": self.model.piece(token), "done": False} for token in said),
            {"response": "", **told},
        ]


@dataclass
class FakeMlxLm(FakeServer):
    """Nothing is told; a request may switch the draft model off."""

    server_header: str = "BaseHTTP/0.6 Python/3.12.1"

    def get(self, path):
        if path == "/health":
            return 200, JSON, json.dumps({"status": "ok"})
        if path == "/v1/models":
            return 200, JSON, json.dumps({"object": "list", "data": [{"id": "a"}, {"id": "b"}]})
        return None

    def post(self, path, body):
        return openai_chunks(self, body) if path == "/v1/completions" else None


@dataclass
class FakeLmStudio(FakeServer):
    """Counts with each answer to a request that names a draft model, in `stats` or in `usage`."""

    place: str = "stats"

    def get(self, path):
        if path == "/api/v0/models":
            entries = [
                {"id": "toy", "type": "llm", "state": "loaded"},
                {"id": "toy-draft", "type": "llm", "state": "loaded"},
                {"id": "embedder", "type": "embeddings", "state": "loaded"},
            ]
            return 200, JSON, json.dumps({"data": entries})
        return None

    def post(self, path, body):
        if path != "/api/v0/completions":
            return None
        counts: Json = {"total_draft_tokens_count": 0, "accepted_draft_tokens_count": 0}
        if not body.get("draft_model"):
            self.model.drafts, was = False, self.model.drafts
            chunks = openai_chunks(self, body, more={"stats": {}})
            self.model.drafts = was
            return chunks
        if self.place == "usage":
            return openai_chunks(self, body, usage=counts)
        return openai_chunks(self, body, more={"stats": counts})


@dataclass
class FakeLeadout(FakeServer):
    """OpenAI's form with `usage.speculation`."""

    reason: str = "drafts pay here"

    def get(self, path):
        if path == "/v1/models":
            return 200, JSON, json.dumps({"data": [{"id": "toy", "owned_by": "leadout"}]})
        if path == "/metrics":
            return 200, TEXT, self.metrics("leadout_", completion_tokens=self.model.tokens)
        return None

    def post(self, path, body):
        if path != "/v1/completions":
            return None
        told = {"enabled": self.model.drafts, "reason": self.reason, "drafter": "ngram"}
        return openai_chunks(self, body, usage={"speculation": told})


@contextmanager
def serving(server: FakeServer) -> Iterator[str]:
    """Serve it on a free port of the loopback interface; gives the URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def version_string(self):
            return server.server_header

        def log_message(self, *words):
            pass

        def do_GET(self):
            if self._is_allowed():
                self._send(server.get(self.path) or (404, JSON, '{"error": "not found"}'))

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if not self._is_allowed():
                return
            server.seen.append({"path": self.path, **body})
            said = server.post(self.path, body)
            if said is None:
                said = (404, JSON, '{"error": "not found"}')
            if isinstance(said, tuple):
                self._send(said)
            elif body.get("stream"):
                self._stream(said)
            else:
                self._send((200, JSON, json.dumps(said[0])))

        def _is_allowed(self):
            if server.key and self.headers.get("Authorization") != f"Bearer {server.key}":
                self._send((401, JSON, json.dumps({"error": f"bad key {self.headers.get('Authorization')}"})))
                return False
            return True

        def _send(self, answer):
            status, kind, text = answer
            self.send_response(status)
            self.send_header("Content-Type", kind)
            if status in (301, 302, 307):
                self.send_header("Location", text)
            content = text.encode()
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _stream(self, chunks):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.send_header("Connection", "close")
            self.end_headers()
            mark, end = ("data: ", "\n\n") if server.lines == "sse" else ("", "\n")
            for number, chunk in enumerate(chunks):
                if server.dies and number == 2:
                    self.close_connection = True
                    return  # without the end of the chunked answer
                self._chunk(f"{mark}{json.dumps(chunk)}{end}")
            if server.lines == "sse":
                self._chunk("data: [DONE]\n\n")
            self._chunk("")
            self.close_connection = True

        def _chunk(self, text):
            content = text.encode()
            self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
            self.wfile.flush()

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_address[1]}"
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
