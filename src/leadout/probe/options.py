"""How much a probe asks of a server, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from leadout.checks import check_kind, check_number, check_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOptions:
    """Limits of a probe. Its requests go out one after the other.

    Parameters
    ----------
    n_prompts : int
        Texts continued at temperature 0, 1..50; with a plain side, each is continued there too.
    n_tokens : int
        Length of each of these answers in tokens, 8..1024.
    n_replays : int
        Most places of these answers that are asked again one token at a time, where there is no plain side.
    n_draws : int
        Short samples drawn at temperature 1 after each of two texts; 0 leaves the law out.
    long_prompt : int
        Also continue a text of about this many tokens, to see whether drafting stops there; 0 does not.
    draft_model : str or None
        For LM Studio, where each request names its draft model.
    timeout_s : float
        Longest silence of the server within one request.
    limit_s : float
        The whole probe; what is not done by then is left out, and said.
    seed : int or None
        Drives prompts and tests. Without one every probe has prompts of its own: a drafter that remembers
        earlier answers would shine on prompts it has seen.

    Raises
    ------
    InputError
        If a value is outside its range.
    """

    n_prompts: int = 4
    n_tokens: int = 96
    n_replays: int = 64
    n_draws: int = 150
    long_prompt: int = 0
    draft_model: str | None = None
    timeout_s: float = 120.0
    limit_s: float = 600.0
    seed: int | None = None

    def __post_init__(self) -> None:
        check_whole("n_prompts", self.n_prompts, 1, 50)
        check_whole("n_tokens", self.n_tokens, 8, 1024)
        check_whole("n_replays", self.n_replays, 1, 10_000)
        check_whole("n_draws", self.n_draws, 0, 10_000)
        check_whole("long_prompt", self.long_prompt, 0, 1_000_000)
        check_kind("draft_model", self.draft_model, str, "a model's name", optional=True)
        check_number("timeout_s", self.timeout_s, 0.1, 86_400, "seconds in 0.1..86400")
        check_number("limit_s", self.limit_s, 1, 86_400, "seconds in 1..86400")
        check_whole("seed", self.seed, 0, optional=True)
