"""`probe_server`: find the engine, ask it, compare, judge."""

from __future__ import annotations

import secrets
import time
from contextlib import ExitStack

import numpy as np

from leadout.probe import prompts
from leadout.probe.answers import Drafting, exchange, fold_drafting, speed, speedup
from leadout.probe.detect import find_engine
from leadout.probe.engine import pick_model, reading
from leadout.probe.equality import Equality, compare, replay
from leadout.probe.http import Http
from leadout.probe.judge import judge
from leadout.probe.law import Law, judge_law
from leadout.probe.measured import Measured
from leadout.probe.options import ProbeOptions
from leadout.probe.report import ProbeReport
from leadout.probe.side import Side
from leadout.probe.values import Ask
from leadout.probe.watch import Watch
from leadout.proof.progress import Progress, quiet

N_BLANK = 16
"""Tokens of the answer whose probabilities are looked at."""


def probe_server(
    url: str,
    *,
    engine: str | None = None,
    plain_url: str | None = None,
    model: str | None = None,
    api_key: str | None = None,
    options: ProbeOptions | None = None,
    progress: Progress = quiet,
) -> ProbeReport:
    """Whether speculative decoding is really on at a server, whether it helps, and whether it harms.

    Calls these URLs and nothing else; requests go out one at a time.

    Parameters
    ----------
    url : str
        Such as http://127.0.0.1:8000.
    engine : str or None
        One of `leadout.probe.detect.ENGINE_NAMES`; found out where None.
    plain_url : str or None
        A server of the same model without speculation, to compare with.
    model : str or None
        Its name at the server, needed where it serves several.
    api_key : str or None
        Sent to both servers as a bearer token; in no message and no report.
    options : ProbeOptions or None
    progress : Progress
        Told of parts and steps.

    Returns
    -------
    ProbeReport

    Raises
    ------
    InputError
        If a URL, an engine or a model cannot be meant.
    ServerError
        If a server cannot be reached, refuses, breaks off, or is no engine's.
    """
    options = options or ProbeOptions()
    start = time.monotonic()
    watch = Watch(deadline=start + options.limit_s, progress=progress)
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed
    with ExitStack() as stack:

        def connect(to: str) -> Http:
            return stack.enter_context(
                Http(to, api_key=api_key, timeout_s=options.timeout_s, deadline=watch.deadline)
            )

        http = connect(url)
        plain_http = None if plain_url is None else connect(plain_url)  # before either is asked
        side, version = _side(http, engine, model, options)
        plain = side.plain()
        if plain_http is not None:
            plain, _ = _side(plain_http, None, None, options)
        texts = [prompts.repetitive(number, seed) for number in range(options.n_prompts)]
        exchanges, drafting = exchange(side, plain, texts, options.n_tokens, watch)
        inspection = side.inspect()
        equality, law = Equality(), Law()
        if drafting.drafted or inspection.configured is not False:
            equality = (
                compare(exchanges, plain)
                if plain is not None
                else replay(exchanges, side, options.n_replays, watch)
            )
            law = judge_law(
                side,
                plain,
                [prompts.free_choice(number, seed) for number in range(2)],
                n_draws=options.n_draws,
                random=np.random.default_rng(seed),
                watch=watch,
            )
        long_drafting = _long(side, options, seed) if options.long_prompt and not watch.is_over() else None
        blank = 0 if watch.is_over() else _blank_tops(side, seed)
        ratio = speedup(exchanges)
        judged = judge(
            Measured(
                inspection=inspection,
                drafting=drafting,
                equality=equality,
                law=law,
                speedup=ratio,
                advice=side.engine.advice,
                is_same_server=plain is not None and plain.http is side.http,
                long_drafting=long_drafting,
                blank_tops=blank,
            )
        )
        return ProbeReport(
            url=side.http.url,
            plain_url="" if plain is None else plain.http.url,
            engine=side.engine.name,
            version=version,
            model=side.model,
            verdict=judged.verdict,
            cause=judged.cause,
            explanation=judged.explanation,
            findings=judged.findings,
            inspection=inspection,
            drafting=drafting,
            equality=equality,
            law=law,
            speed=speed([each.said for each in exchanges]),
            plain_speed=speed([each.plain for each in exchanges if each.plain is not None]),
            speedup=ratio,
            seconds=time.monotonic() - start,
            is_cut=watch.is_over(),
            options=options,
            seed=seed,
        )


def _side(http: Http, engine: str | None, model: str | None, options: ProbeOptions) -> tuple[Side, str]:
    with reading(engine or "any engine", http):
        found, version = find_engine(http, engine, options)
        return Side(engine=found, http=http, model=pick_model(found, http, model)), version


def _long(side: Side, options: ProbeOptions, seed: int) -> Drafting:
    """What is drafted after a long text."""
    before = side.counters()
    said = side.stream(Ask(prompt=prompts.long_text(options.long_prompt, seed), max_tokens=options.n_tokens))
    return fold_drafting([said], side.counted_since(before, said.n_tokens or 0))


def _blank_tops(side: Side, seed: int) -> int:
    """Tokens of a drafted answer that came without the probabilities that were asked for."""
    if side.engine.n_top == 0:
        return 0
    said = side.ask(Ask(prompt=prompts.repetitive(0, seed + 1), max_tokens=N_BLANK, n_top=2))
    return sum(not position for position in said.tops)
