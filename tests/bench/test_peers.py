"""Other engines: what is said when one is missing, the process between, llama-server's flags and replies."""

import io
import json
import stat
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from talk import CHATML, answer

from leadout.bench.peer_llama_server import LlamaServerPeer, read_completion, server_command
from leadout.bench.peer_worker import load_peer, serve
from leadout.bench.peers import PeerSettings, PeerSetup, ProcessPeer, peer_contender
from leadout.bench.server_settings import PLAIN, ServerSetting, TuningPrompt
from leadout.bench.specs import Spec
from leadout.engine.params import Params
from leadout.errors import ProviderError
from leadout.testing.tiny_gguf import write_tiny_gguf

GREEDY = Params(temperature=0.0, max_tokens=12)
NEW_HELP = "-md\n--spec-type none,draft-simple,ngram-mod\n--spec-draft-n-max N\n-ngld N\n"


def setup(**change):
    given = {
        "target": Path("t.gguf"), "draft": Path("d.gguf"), "n_ctx": 512, "n_threads": 1, "n_gpu_layers": 0,
        "ends": (), "server": "/bin/llama-server",
    }  # fmt: skip
    return PeerSetup(**{**given, **change})


def server(mode, **change):
    return PeerSettings(
        kind="llama-server", mode=mode, target="t.gguf", draft="d.gguf", program="srv", **change
    )


@pytest.mark.parametrize(
    ("spec", "change", "said"),
    [
        (
            Spec(kind="llama-server"),
            {"server": ""},
            "llama-server is not on PATH; name it with --llama-server FILE",
        ),
        (
            Spec(kind="llama-server", mode="draft"),
            {"draft": None},
            "it is to use a draft model, and --draft names",
        ),
        (Spec(kind="llama-server"), {"target": None}, "the target has no file"),
        *(
            (Spec(kind=kind), {}, f"{module} is not installed; pip install ")
            for kind, module in (("transformers", "transformers"), ("openvino", "openvino_genai"))
            if find_spec(module) is None
        ),
    ],
)
def test_peer_that_cannot_take_part_says_why(spec, change, said):
    with pytest.raises(ProviderError) as error:
        setup(**change).settings(spec)
    assert said in str(error.value)


def test_peer_uses_a_draft_model_where_there_is_one():
    with_draft, without = setup(), setup(draft=None)
    assert with_draft.settings(Spec(kind="llama-server")).mode == "best"
    assert with_draft.settings(Spec(kind="llama-server")).draft.endswith("/d.gguf")
    assert without.settings(Spec(kind="llama-server")).draft == ""
    python = {"python": "/bin/python3"}
    assert setup(**python).settings(Spec(kind="openvino")).mode == "draft"
    assert setup(**python, draft=None).settings(Spec(kind="openvino")).mode == "lookup"
    program = setup(**python).settings(Spec(kind="openvino")).program
    assert program == ("/bin/python3" if find_spec("openvino_genai") is None else "")
    assert with_draft.settings(Spec(kind="llama-server", mode="plain")).draft == ""


class Parrot:
    """A peer that repeats the prompt."""

    version = "1.2"

    def __init__(self, settings):
        self.settings, self.forgotten, self.is_closed = settings, 0, False
        self.workloads = []

    def forget(self, workload=""):
        self.forgotten += 1
        self.workloads.append(workload)

    def answer(self, prompt, params):
        if not prompt:
            raise ValueError("nothing to repeat")
        return answer(prompt[: params.max_tokens], 2.0, passes=3, drafted=4, accepted=1)

    def close(self):
        self.is_closed = True


def test_worker_answers_line_by_line_and_survives_errors():
    made, out = [], io.StringIO()

    def load(settings):
        made.append(Parrot(settings))
        return made[0]

    law = {"temperature": 0.0, "max_tokens": 2}
    requests = [
        {"forget": True},
        {"open": {"kind": "parrot", "mode": "plain", "target": "t", "ends": [1]}},
        {"forget": True},
        {"answer": {"prompt": [], "params": law}},
        {"answer": {"prompt": [7, 8, 9], "params": law}},
    ]
    serve(map(json.dumps, requests), out, load)
    replies = [json.loads(line) for line in out.getvalue().splitlines()]
    assert replies[0] == {"error": "ProviderError: nothing was opened"}
    assert replies[1] == {"version": "1.2"}
    assert replies[2] == {}
    assert replies[3] == {"error": "ValueError: nothing to repeat"}
    assert replies[4] == {
        "ids": [7, 8], "first_s": 1.0, "decode_s": 2.0,
        "n_first": 1, "passes": 3, "drafted": 4, "accepted": 1,
    }  # fmt: skip
    assert (made[0].forgotten, made[0].is_closed) == (1, True)


def test_worker_knows_no_other_peer():
    with pytest.raises(ProviderError, match="peer 'parrot' does not run in a process like this"):
        load_peer(PeerSettings(kind="parrot", mode="plain", target="t"))


def test_peer_forgets_before_every_unit():
    parrot = Parrot(None)
    contender = peer_contender("parrot", parrot)
    assert contender.fresh("chat") is contender.fresh("edit") is parrot
    assert parrot.workloads == ["chat", "edit"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write_tiny_gguf(tmp_path_factory.mktemp("peers") / "tiny.gguf", chat_template=CHATML)


def llama_cpp_python(tiny, mode, **change):
    pytest.importorskip("llama_cpp")
    return ProcessPeer(
        PeerSettings(kind="llama-cpp-python", mode=mode, target=str(tiny), n_ctx=256, **change)
    )


def test_llama_cpp_python_answers_the_same_with_and_without_lookup(tiny):
    prompt = [5, 6, 7, 8, 5, 6, 7, 8, 5, 6]
    plain, lookup = llama_cpp_python(tiny, "plain"), llama_cpp_python(tiny, "lookup")
    try:
        one, two = plain.answer(prompt, GREEDY), lookup.answer(prompt, GREEDY)
        assert one.ids == two.ids
        assert len(one.ids) == 12
        assert (one.drafted, one.accepted, one.passes) == (0, 0, 12)
        assert two.drafted > 0
        assert two.passes == 12 - two.accepted
        assert one.first_s > 0
        assert one.decode_s > 0
        lookup.forget()
        assert lookup.answer(prompt, GREEDY).ids == one.ids
        assert plain.version[0].isdigit()
    finally:
        plain.close()
        lookup.close()
    with pytest.raises(ProviderError, match="llama-cpp-python is closed"):
        plain.forget()
    plain.close()


def test_llama_cpp_python_stops_at_an_end_token(tiny):
    plain = llama_cpp_python(tiny, "plain")
    try:
        ids = plain.answer([5, 6, 7], GREEDY).ids
    finally:
        plain.close()
    stopping = llama_cpp_python(tiny, "plain", ends=(ids[3],))
    try:
        assert stopping.answer([5, 6, 7], GREEDY).ids == ids[: ids.index(ids[3])]
    finally:
        stopping.close()


def test_peer_that_cannot_load_says_so(tmp_path):
    with pytest.raises(ProviderError, match="llama-cpp-python failed: ValueError: Model path does not exist"):
        llama_cpp_python(tmp_path / "none.gguf", "plain")


def test_server_flags_follow_the_setting_and_the_build():
    setting = ServerSetting(name="draft k=2", flags=("--spec-type", "draft-simple"), drafts=True)
    new = server_command(server("draft"), setting, NEW_HELP, 1234)
    assert new[:3] == ["srv", "-m", "t.gguf"]
    assert new[new.index("-md") :] == ["-md", "d.gguf", "-ngld", "0", "--spec-type", "draft-simple"]
    old = server_command(server("draft", n_gpu_layers=-1), setting, "-md FNAME", 1234)
    assert "-ngld" not in old
    assert old[old.index("-ngl") + 1] == "999"
    assert "-md" not in server_command(server("plain"), PLAIN, NEW_HELP, 1)


def test_completion_is_read_with_and_without_drafts():
    timings = {"prompt_ms": 500.0, "predicted_ms": 2000.0}
    plain = read_completion({"tokens": [4, 5, 6, 2], "timings": timings}, frozenset({2}))
    assert plain == answer([4, 5, 6], 2.0, first_s=0.5, passes=3, drafted=0, accepted=0)
    drafted = {**timings, "draft_n": 5, "draft_n_accepted": 2}
    assert read_completion({"tokens": [4, 5, 6], "timings": drafted}, frozenset()).passes == 1
    with pytest.raises(ProviderError, match="llama-server's reply has no tokens or timings"):
        read_completion({"content": "x"}, frozenset())


SERVER = '''#!{python}
"""Stands in for llama-server: the flags, /health and /completion of it that the benchmark uses."""
import json, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

if "--help" in sys.argv:
    print({help!r})
    sys.exit()
if "--version" in sys.argv:
    print("version: 77 (abc)", file=sys.stderr)
    sys.exit()
if "broken.gguf" in sys.argv:
    print("error: cannot load broken.gguf", file=sys.stderr)
    sys.exit(1)
with open({log!r}, "a") as log:
    log.write("start " + " ".join(sys.argv[sys.argv.index("-np"):]) + "\\n")

class Handler(BaseHTTPRequestHandler):
    def log_message(self, *arguments): pass
    def reply(self, code, value):
        body = json.dumps(value).encode()
        self.send_response(code); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def do_GET(self): self.reply(200, {{}})
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with open({log!r}, "a") as log:
            log.write(f"keeps {{asked['cache_prompt']}}\\n")
        if asked["prompt"] == [0]:
            return self.reply(500, {{"error": "no such luck"}})
        if asked["prompt"] == [9]:
            print("fatal: out of luck", file=sys.stderr, flush=True)
            os._exit(1)
        ids = list(range(10, 10 + asked["n_predict"]))
        asks_for = sys.argv[sys.argv.index("--spec-draft-n-max") + 1] if "-md" in sys.argv else ""
        spent = {{"2": 1000, "4": 9000}}.get(asks_for, 3000)
        if "ngram-mod" in sys.argv:
            spent = 100 if asked["prompt"] == [7, 7] else 4000
        self.reply(200, {{"tokens": ids, "timings": {{"prompt_ms": 1000, "predicted_ms": spent}}}})

HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
'''


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "llama-server"
    file.write_text(SERVER.format(python=sys.executable, help=NEW_HELP, log=str(tmp_path / "log")))
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


def test_server_is_started_asked_and_ended(program, tmp_path):
    peer = LlamaServerPeer(
        PeerSettings(kind="llama-server", mode="plain", target="t.gguf", program=str(program))
    )
    try:
        peer.forget()
        assert peer.version == "version: 77 (abc)"
        first = peer.answer([1, 2, 3], Params(temperature=0.0, max_tokens=3))
        assert (first.ids, first.first_s, first.decode_s) == ((10, 11, 12), 1.0, 3.0)
        peer.answer([1, 2, 3, 4], GREEDY)
        peer.forget()
        peer.answer([5], GREEDY)
        with pytest.raises(ProviderError, match=r"llama-server said 500: .*no such luck"):
            peer.answer([0], GREEDY)
    finally:
        peer.close()
    said = (tmp_path / "log").read_text().splitlines()
    assert [line.split()[0] for line in said] == ["start", "keeps", "keeps", "keeps", "keeps"]
    assert said[1:4] == ["keeps False", "keeps True", "keeps False"]
    with pytest.raises(ProviderError, match="llama-server is closed"):
        peer.answer([1], GREEDY)


def test_server_with_a_pool_of_ngrams_starts_anew_for_every_unit(program, tmp_path):
    peer = LlamaServerPeer(
        PeerSettings(kind="llama-server", mode="lookup", target="t.gguf", program=str(program))
    )
    try:
        for _ in range(2):
            peer.forget()
            peer.answer([1, 2, 3], GREEDY)
    finally:
        peer.close()
    starts = [line for line in (tmp_path / "log").read_text().splitlines() if line.startswith("start")]
    assert len(starts) == 2
    assert all("--spec-type ngram-mod" in line for line in starts)


WRITE = TuningPrompt(name="write", stands_for=("chat", "code"), ids=(5, 6))
COPY = TuningPrompt(name="copy", stands_for=("edit",), ids=(7, 7))


def test_the_fastest_setting_serves_each_workload(program, tmp_path):
    told = []
    settings = PeerSettings(
        kind="llama-server", mode="best", target="t.gguf", draft="d.gguf", program=str(program)
    )
    peer = LlamaServerPeer(settings, [WRITE, COPY], lambda *step: told.append(step))
    try:
        tried = peer.tuned.rates["write"]
        assert list(tried) == ["plain", "draft k=1", "draft k=2", "draft k=3", "draft k=4", "ngram-mod"]
        assert tried["draft k=2"] == 39.0  # 40 tokens, the first of which came with the prompt, in a second
        assert {name: each.name for name, each in peer.tuned.chosen.items()} == {
            "chat": "draft k=2", "code": "draft k=2", "edit": "ngram-mod",
        }  # fmt: skip
        assert told == [("llama-server settings", done, 6) for done in range(6)]
        before = len((tmp_path / "log").read_text().splitlines())
        for workload in ("chat", "code", "edit", "edit"):
            peer.forget(workload)
            peer.answer([1, 2, 3], GREEDY)
    finally:
        peer.close()
    said = (tmp_path / "log").read_text().splitlines()[before:]
    firsts = " ".join(line.split()[0] for line in said)
    assert firsts == "start keeps keeps start keeps start keeps"
    assert "--spec-draft-n-max 2" in said[0]
    assert "ngram-mod" in said[3]
    assert "ngram-mod" in said[5]  # its n-grams would outlive the unit


def test_server_without_any_answer_is_left_out(program):
    settings = PeerSettings(kind="llama-server", mode="best", target="broken.gguf", program=str(program))
    with pytest.raises(ProviderError, match=r"llama-server gave no answer with any of: plain, ngram-mod"):
        LlamaServerPeer(settings, [WRITE])


def test_another_python_runs_the_worker(tiny, tmp_path):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "import nothing_like_this"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    settings = PeerSettings(kind="openvino", mode="plain", target=str(tiny), program=str(python))
    with pytest.raises(ProviderError, match=r"openvino ended: ModuleNotFoundError: .*nothing_like_this"):
        ProcessPeer(settings)


def talking_program(tmp_path, said):
    """A program that reads a line, says something and ends."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\nread line\necho '{said}'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def test_a_program_that_is_no_python_is_left_out(tiny, tmp_path):
    program = talking_program(tmp_path, "hello")
    settings = PeerSettings(kind="openvino", mode="plain", target=str(tiny), program=program)
    with pytest.raises(ProviderError, match=r"openvino said 'hello.n', which is no answer; is it a Python"):
        ProcessPeer(settings)
    for program in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ProviderError, match=f"{program} cannot be run: "):
            ProcessPeer(replace(settings, program=str(program)))


def test_a_peer_that_was_killed_can_be_closed(tiny, tmp_path):
    """What was to be written to it is still there when its pipe is closed."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nread line\necho \'{"version": "1"}\'\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    settings = PeerSettings(kind="openvino", mode="plain", target=str(tiny), program=str(python))
    peer = ProcessPeer(settings)
    peer._process.wait(timeout=10)
    with pytest.raises(ProviderError, match="openvino ended: "):
        peer.forget()
    peer.close()
    peer.close()


def test_server_that_ends_at_once_says_its_last_words(program):
    settings = PeerSettings(kind="llama-server", mode="plain", target="broken.gguf", program=str(program))
    with pytest.raises(ProviderError, match=r"llama-server ended: error: cannot load broken\.gguf"):
        LlamaServerPeer(settings)


def test_server_that_dies_over_an_answer_says_its_last_words(program):
    peer = LlamaServerPeer(
        PeerSettings(kind="llama-server", mode="plain", target="t.gguf", program=str(program))
    )
    try:
        with pytest.raises(ProviderError, match=r"llama-server did not answer: .*; fatal: out of luck"):
            peer.answer([9], GREEDY)
    finally:
        peer.close()


def test_program_that_is_none_is_refused(tmp_path):
    settings = PeerSettings(
        kind="llama-server", mode="plain", target="t.gguf", program=str(tmp_path / "none")
    )
    with pytest.raises(ProviderError, match="none cannot be run"):
        LlamaServerPeer(settings)
