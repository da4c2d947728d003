"""What leadout knows of an engine: how to find it, what it can do, and the function that sets it up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from leadout.errors import InputError
from leadout.launch.capabilities import Capabilities, Installation
from leadout.launch.plan import DraftKind, ModelForm, Plan
from leadout.launch.setup import Setup


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultK:
    """How many tokens are drafted where nobody says; None leaves it to the engine."""

    k: int | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine that leadout can set up.

    Parameters
    ----------
    name, title : str
        What users type, and what they read.
    installation : Installation
    set_up : callable
        Plan and capabilities to a `Setup`; pure.
    drafts : tuple of (DraftKind, DefaultK)
        What can draft there, beside nothing, and with how many tokens.
    port : int
        Its usual port.
    forms : tuple of ModelForm
        What it takes for a model.
    takes, instead : str
        The same in words, and what to do with a model in another form.
    takes_repositories : bool
        Its names are hub repositories.
    is_distributed : bool
        It can use several machines.
    image, image_program : str
        Its container image with ``{release}`` in it, "" where there is none, and its program in there.
    needs_gpu : bool
        Its image is for GPUs.
    has_unit : bool
        It can run as a systemd service.
    confirm, silent : str
        How to see that it drafts, and what it does without saying so; for the documentation.
    """

    name: str
    title: str
    installation: Installation
    set_up: Callable[[Plan, Capabilities], Setup]
    drafts: tuple[tuple[DraftKind, DefaultK], ...]
    port: int
    forms: tuple[ModelForm, ...]
    takes: str
    instead: str = ""
    takes_repositories: bool = False
    is_distributed: bool = False
    image: str = ""
    image_program: str = ""
    needs_gpu: bool = False
    has_unit: bool = True
    confirm: str
    silent: str

    def default_k(self, kind: DraftKind) -> DefaultK:
        """How many tokens this kind drafts there by default.

        Raises
        ------
        InputError
            If the engine has no such drafts; says which it has.
        """
        for known, default in self.drafts:
            if known == kind:
                return default
        kinds = ["MODEL" if known == "model" else known for known, _ in self.drafts]
        raise InputError(
            f"{self.title} cannot draft with {'a draft model' if kind == 'model' else kind}; "
            f"give --draft {' or '.join([*kinds, 'none'])}"
        )
