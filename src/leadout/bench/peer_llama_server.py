"""llama-server over HTTP on the loopback interface, each kind of prompt with the fastest of its settings."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from leadout.bench.answer import Answer
from leadout.bench.peers import PeerSettings
from leadout.bench.progress import Progress
from leadout.bench.server_settings import ServerSetting, Tuned, TuningPrompt, fastest, known_settings
from leadout.bench.words import LastWords
from leadout.engine.params import Params
from leadout.errors import ProviderError

START_S, ANSWER_S = 180.0, 1800.0
ALL_LAYERS = 999
TUNING_TOKENS, WARM_UP_TOKENS = 40, 8


def server_command(settings: PeerSettings, setting: ServerSetting, help_text: str, port: int) -> list[str]:
    """The command line for this build of the server.

    Parameters
    ----------
    settings : PeerSettings
    setting : ServerSetting
        How it speculates.
    help_text : str
        What ``llama-server --help`` prints.
    port : int
    """
    layers = str(ALL_LAYERS if settings.n_gpu_layers < 0 else settings.n_gpu_layers)
    command = [settings.program, "-m", settings.target, "--host", "127.0.0.1", "--port", str(port)]
    command += ["-np", "1", "-c", str(settings.n_ctx), "-t", str(settings.n_threads), "-ngl", layers]
    if setting.drafts:
        command += ["-md", settings.draft]
        if re.search(r"--spec-draft-ngl\b|-ngld\b", help_text):
            command += ["-ngld", layers]
    return [*command, *setting.flags]


class LlamaServerPeer:
    """See `Peer`. Where several settings are possible, the fastest for each kind of prompt is found first.

    The server is started anew for another setting, and before every unit when it keeps n-grams.

    Parameters
    ----------
    settings : PeerSettings
    prompts : sequence of TuningPrompt
        What settings are tried on; without any the first setting that is known serves all.
    progress : Progress or None
        Told of the settings that are tried.

    Raises
    ------
    ProviderError
        If the server cannot be run, or cannot do what is asked.
    """

    def __init__(
        self,
        settings: PeerSettings,
        prompts: Sequence[TuningPrompt] = (),
        progress: Progress | None = None,
    ) -> None:
        self._settings = settings
        self._help = _output(settings.program, "--help")
        self._version = (re.search(r"version: .*", _output(settings.program, "--version")) or ["unknown"])[0]
        known = known_settings(settings.mode, self._help, has_draft=bool(settings.draft))
        self._words = LastWords()
        self._process: subprocess.Popen[bytes] | None = None
        self._setting = known[0]
        self._tuned: Tuned | None = None
        self._url, self._keeps, self._is_used = "", False, False
        self._http = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never through a proxy
        try:
            if len(known) > 1 and prompts:
                self._tuned = self._tune(known, prompts, progress)
            self._start(known[0])
        except BaseException:
            self.close()
            raise

    @property
    def version(self) -> str:
        """What the server calls itself."""
        return self._version

    @property
    def tuned(self) -> Tuned | None:
        """Which settings were tried, and which were chosen."""
        return self._tuned

    def forget(self, workload: str = "") -> None:
        """Be ready for prompts of this kind: nothing of earlier ones is used."""
        self._keeps = False
        wanted = self._setting if self._tuned is None else self._tuned.chosen.get(workload, self._setting)
        if wanted != self._setting or (wanted.keeps_texts and self._is_used) or self._process is None:
            self._stop()
            self._start(wanted)

    def _tune(
        self, known: Sequence[ServerSetting], prompts: Sequence[TuningPrompt], progress: Progress | None
    ) -> Tuned:
        rates: dict[str, dict[str, float]] = {prompt.name: {} for prompt in prompts}
        asked = Params(temperature=0.0, max_tokens=TUNING_TOKENS)
        for done, setting in enumerate(known):
            if progress is not None:
                progress("llama-server settings", done, len(known))
            try:
                self._start(setting)
                warm_up = list(reversed(prompts[0].ids))
                self.answer(warm_up, replace(asked, max_tokens=WARM_UP_TOKENS))
                for prompt in prompts:
                    self._keeps = False
                    answer = self.answer(prompt.ids, asked)
                    if answer.token_s:
                        rates[prompt.name][setting.name] = 1 / answer.token_s
            except ProviderError:  # a setting that does not work is not the best one
                for of in rates.values():
                    of.pop(setting.name, None)
            finally:
                self._stop()
        return fastest(known, prompts, rates)

    def answer(self, prompt: Sequence[int], params: Params) -> Answer:
        """What the server gives, by its own clock: HTTP is not counted."""
        if self._process is None:
            raise ProviderError("llama-server is closed")
        asked: dict[str, object] = {
            "prompt": list(prompt),
            "n_predict": params.max_tokens,
            "temperature": params.temperature,
            "top_k": params.top_k if params.temperature > 0 else 1,
            "top_p": params.top_p,
            "min_p": params.min_p,
            "cache_prompt": self._keeps,
            "return_tokens": True,
        }
        if params.seed is not None:
            asked["seed"] = params.seed % 2**32
        self._keeps = self._is_used = True
        said = self._post("/completion", asked)
        return read_completion(said, frozenset(self._settings.ends))

    def close(self) -> None:
        """End the server."""
        self._stop()
        self._words.close()

    def _start(self, setting: ServerSetting) -> None:
        port = _free_port()
        command = server_command(self._settings, setting, self._help, port)
        self._setting, self._keeps = setting, False
        self._url, self._is_used = f"http://127.0.0.1:{port}", False
        self._process = subprocess.Popen(command, stdout=self._words.file, stderr=self._words.file)
        until = time.monotonic() + START_S
        while not self._is_ready():
            if self._process.poll() is not None:
                raise ProviderError(f"llama-server ended: {self._words.read()}")
            if time.monotonic() > until:
                raise ProviderError(f"llama-server was not ready after {START_S:.0f} s: {self._words.read()}")
            time.sleep(0.1)

    def _stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _is_ready(self) -> bool:
        try:
            with self._http.open(f"{self._url}/health", timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def _post(self, path: str, body: dict[str, object]) -> dict[str, Any]:
        request = urllib.request.Request(
            self._url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with self._http.open(request, timeout=ANSWER_S) as response:
                read: dict[str, Any] = json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode("utf-8", "replace")
            raise ProviderError(f"llama-server said {error.code}: {text[:300]}") from error
        except (OSError, ValueError) as error:
            raise ProviderError(f"llama-server did not answer: {error}; {self._words.read()}") from error
        return read


def read_completion(said: dict[str, Any], ends: frozenset[int]) -> Answer:
    """The answer in a reply of ``/completion``; drafts are not mentioned there when none were made.

    Raises
    ------
    ProviderError
        If the reply lacks tokens or timings.
    """
    try:
        timings, ids = said["timings"], [int(token) for token in said["tokens"]]
        first_s, decode_s = timings["prompt_ms"] / 1e3, timings["predicted_ms"] / 1e3
    except (KeyError, TypeError, ValueError) as error:
        raise ProviderError(f"llama-server's reply has no tokens or timings: {str(said)[:300]}") from error
    while ids and ids[-1] in ends:
        ids.pop()
    accepted = int(timings.get("draft_n_accepted", 0))
    return Answer(
        ids=tuple(ids),
        first_s=first_s,
        decode_s=decode_s,
        passes=max(0, len(ids) - accepted),
        drafted=int(timings.get("draft_n", 0)),
        accepted=accepted,
    )


def _output(program: str, option: str) -> str:
    try:
        done = subprocess.run([program, option], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise ProviderError(f"{program} cannot be run: {error}") from error
    return done.stdout + done.stderr


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
