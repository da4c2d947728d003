"""Plans and capabilities to set engines up with, without files or engines."""

from dataclasses import replace

from leadout.launch.capabilities import Capabilities, assumed
from leadout.launch.engines import ENGINES
from leadout.launch.plan import Plan, ServedModel, Serving
from leadout.launch.setup import Setup
from leadout.launch.vocabularies import Verdict

TARGET = ServedModel(
    name="T",
    given="/m/target",
    form="folder",
    n_bytes=8000,
    n_ctx_train=32768,
    architectures=("Qwen2ForCausalLM",),
)
DRAFT = ServedModel(
    name="D",
    given="/m/draft",
    form="folder",
    n_bytes=500,
    n_ctx_train=32768,
    architectures=("Qwen2ForCausalLM",),
)
SAME = Verdict(agreement="same", sentence="the draft's vocabulary is compatible", n_target=100, n_draft=100)
PADDED = Verdict(agreement="padded", sentence="padded by 8 rows", n_target=108, n_draft=100)
CLOSE = Verdict(agreement="close", sentence="two ids differ", n_target=100, n_draft=100)
DIFFERENT = Verdict(agreement="different", sentence="not compatible: 0 %", n_target=100, n_draft=100)


def capabilities(engine: str, release: str = "") -> Capabilities:
    """What the newest version read can do, or `release` with the same words."""
    newest = assumed(ENGINES[engine].installation)
    return replace(newest, release=release or newest.release)


def plan(
    engine: str, *, vocabulary: Verdict | None = SAME, head: str = "", k: int | None = 3, **serving
) -> Plan:
    """The pair, with the engine's usual port; `head` is an architecture for the draft."""
    draft = replace(DRAFT, architectures=(head,)) if head else DRAFT
    placed = Serving(**{"port": ENGINES[engine].port, **serving})
    return Plan(
        target=TARGET, kind="model", draft=draft, k=k, why_k="a test", vocabulary=vocabulary, serving=placed
    )


def without_draft(made: Plan, kind: str = "none", k: int | None = None) -> Plan:
    """The same with a lookup, or with nothing, instead of the draft model."""
    return replace(made, kind=kind, draft=None, vocabulary=None, k=k, why_k="")


def set_up(made: Plan, engine: str, release: str = "") -> Setup:
    """What the engine needs."""
    return ENGINES[engine].set_up(made, capabilities(engine, release))


def line(setup: Setup) -> str:
    """The command line in one string."""
    return " ".join(setup.argv)
