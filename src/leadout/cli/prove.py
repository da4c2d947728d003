"""`leadout prove`: the four measurements of `leadout.proof`, as a table or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from leadout.cli.flags import CHOICE, DRAFT_MODEL, MODEL, Choice, DraftModelOptions, check_draft_flags
from leadout.cli.options import Flag, Group, Target, takes
from leadout.cli.output import note, print_json, print_table
from leadout.errors import InputError
from leadout.models.options import GgufOptions
from leadout.proof.prove import ProofOptions

if TYPE_CHECKING:
    from leadout.proof.equality import EqualityReport
    from leadout.proof.law import LawReport
    from leadout.proof.prove import ProofReport

NOT_LOSSLESS = 1

PROOF = Group(
    kind=ProofOptions,
    panel="Proof",
    flags=(
        Flag(
            "n_prompts",
            "Texts answered for the greedy and the seeded part.",
            names=("--prompts",),
            metavar="N",
        ),
        Flag("n_tokens", "Length of each of these answers in tokens.", names=("--tokens",), metavar="N"),
        Flag("n_draws", "Answers drawn after each text of the law part.", names=("--draws",), metavar="N"),
        Flag("k", "Tokens to draft in a round.", names=("-k",), metavar="N"),
        Flag("temperature", "Randomness of the seeded and the law part.", metavar="T"),
        Flag("seed", "Drives the proof itself, so that it can be repeated.", metavar="N"),
        Flag("exact", "Prove exact mode, where every answer must be plain decoding's.", names=("--exact",)),
    ),
)


@takes(
    proof=PROOF,
    choice=CHOICE.without("draft", "lookups", "k", "schedule"),
    options=MODEL.without("exact"),
    draft_options=DRAFT_MODEL,
)
def prove(
    target: Target,
    *,
    draft: Annotated[
        str,
        typer.Option(metavar="ngram|MODEL", help="What drafts: ngram, or the name or path of a draft model."),
    ] = "ngram",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    proof: ProofOptions,
    choice: Choice,
    options: GgufOptions,
    draft_options: DraftModelOptions,
) -> None:
    """Measure whether speculation is lossless here, with these files; exit code 0 only if it is."""
    from dataclasses import replace
    from functools import partial

    from leadout.cli.progress import BarProgress, StepProgress
    from leadout.loading import draft_model_of, is_model, load_models
    from leadout.proof.prove import prove as measure

    if draft == "none":
        raise InputError(
            "--draft none drafts nothing, so there is nothing to prove; use ngram or a draft model"
        )
    if draft in ("auto", "suffix"):
        raise InputError(f"--draft {draft} cannot be proved by itself; use ngram or a draft model")
    has_model = is_model(draft)
    check_draft_flags(replace(choice, draft=draft), draft_options, has_model=has_model)
    options = replace(options, exact=proof.exact)
    models = load_models(
        target,
        draft,
        options=options,
        draft_options=draft_options.applied_to(options),
        provider=choice.provider,
        draft_provider=choice.provider if has_model else "auto",
        bridge=choice.bridge,
        offline=choice.offline,
        progress=BarProgress(),
    )
    try:
        with StepProgress(is_quiet=json) as progress:
            report = measure(
                models.target,
                models.draft,
                proof,
                connect=partial(draft_model_of, models),
                progress=progress.show,
            )
    finally:
        models.close()
    if json:
        print_json(report.to_json())
    else:
        _print(report)
    if not report.is_lossless:
        raise typer.Exit(NOT_LOSSLESS)


def _print(report: ProofReport) -> None:
    from rich.table import Table

    note(f"{report.target} through {report.provider}, draft {report.drafter}, k = {report.options.k}")
    table = Table(box=None, pad_edge=False)
    for heading in ("part", "result", "evidence"):
        table.add_column(heading)
    for name, part in (("greedy", report.greedy), ("seeded", report.seeded)):
        table.add_row(
            name,
            _equality(part),
            f"{part.n_tokens} tokens, {_accepted(part)}",
        )
    for number, law in enumerate(report.law, 1):
        table.add_row(
            f"law {number}",
            f"p = {law.p_value:.3g}",
            f"{law.n_draws} draws, {law.n_outcomes} outcomes, {_accepted(law)}",
        )
    for width in report.widths:
        same = "same bits" if width.is_bit_identical else f"differs by {width.max_difference:.2g}"
        leak = "" if width.is_causal else ", later tokens change earlier rows"
        table.add_row(
            f"width {width.width}", same + leak, f"{width.n_flips} of {width.n_rows} argmaxes differ"
        )
    print_table(table)
    for fault in report.faults:
        print(f"fault: {fault}")
    print(f"lossless: {'yes' if report.is_lossless else 'no'}")


def _accepted(part: EqualityReport | LawReport) -> str:
    return f"{part.accepted} of {part.drafted} drafted accepted"


def _equality(part: EqualityReport) -> str:
    text = f"{part.n_equal} of {part.n_pairs} answers identical"
    if part.differences:
        gaps = ", ".join(f"{each.verdict} (top-2 gap {each.top_two_gap:.2g})" for each in part.differences)
        text += f"; {gaps}"
    return text
