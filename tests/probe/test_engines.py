"""Every engine's own form, from detection to verdict, against a local server that answers in that form.

This says that leadout reads what the engines document; that they do so is shown by runs of the real ones.
"""

import pytest
from fake_model import FakeModel
from fake_servers import (
    FakeLeadout,
    FakeLlamaServer,
    FakeLmStudio,
    FakeMlxLm,
    FakeOllama,
    FakeSglang,
    FakeTensorrtLlm,
    FakeVllm,
    serving,
)

from leadout.probe import ProbeOptions, Verdict, probe_server

# two texts: with fewer than three the speed decides nothing
SMALL = ProbeOptions(n_prompts=2, n_tokens=32, n_draws=100, seed=3)
QUICK = ProbeOptions(n_prompts=2, n_tokens=32, n_draws=0, seed=3)
TELL_IDS = [FakeVllm, FakeSglang, FakeLlamaServer]


def probed(server, options=SMALL, plain=None, **more):
    if plain is None:
        with serving(server) as url:
            return probe_server(url, options=options, **more)
    with serving(server) as url, serving(plain) as plain_url:
        return probe_server(url, plain_url=plain_url, options=options, **more)


def names(report):
    return {finding.name for finding in report.findings}


@pytest.mark.parametrize(
    ("make", "name", "version"),
    [
        (FakeVllm, "vllm", "0.32.0"),
        (FakeSglang, "sglang", "0.5.23"),
        (FakeLlamaServer, "llama-server", "b11434"),
        (FakeTensorrtLlm, "tensorrt-llm", "1.2.0"),
        (FakeOllama, "ollama", "0.33.0"),
        (FakeMlxLm, "mlx-lm", ""),
        (FakeLmStudio, "lmstudio", ""),
        (FakeLeadout, "leadout", ""),
    ],
)
def test_engine_is_recognised_by_its_own_answers(make, name, version):
    report = probed(make(), QUICK, model="toy:latest" if make is FakeOllama else "toy")
    assert (report.engine, report.version) == (name, version)


@pytest.mark.parametrize("make", TELL_IDS)
def test_drafting_server_is_on_and_unharmed_without_a_plain_one(make):
    report = probed(make())
    assert (report.verdict, report.cause, report.exit_code) == (Verdict.ON, "drafts-and-unharmed", 0)
    assert report.drafting.drafted > 0
    assert report.drafting.foreign == 0
    assert report.equality.result == "equal"
    assert report.law.result == "follows"


@pytest.mark.parametrize("make", TELL_IDS)
def test_figures_are_what_the_server_did(make):
    model = FakeModel(k=4)
    report = probed(make(model=model), QUICK)
    # 32 tokens: one from the prompt's pass, then 7 rounds of 4 drafted; all but the rounds' own tokens stood
    assert (report.drafting.n_tokens, report.drafting.accepted) == (64, 2 * (31 - 7))
    if make is not FakeVllm or report.drafting.basis == "answers":
        assert report.drafting.drafted == 2 * 7 * 4
    assert report.drafting.tokens_per_pass == pytest.approx(64 / (64 - 48))


@pytest.mark.parametrize("make", TELL_IDS)
def test_draft_that_never_stands_is_useless(make):
    report = probed(make(model=FakeModel(accepts=False)), QUICK)
    assert (report.verdict, report.cause, report.exit_code) == (Verdict.USELESS, "nothing-accepted", 4)
    assert "vocabulary" in report.explanation


@pytest.mark.parametrize("make", TELL_IDS)
def test_greedy_verification_is_caught_by_its_law(make):
    report = probed(make(model=FakeModel(rule="greedy")))
    assert (report.verdict, report.cause, report.exit_code) == (
        Verdict.NOT_LOSSLESS,
        "greedy-verification",
        5,
    )
    assert report.equality.result == "equal"
    assert report.law.p_value < 0.001


@pytest.mark.parametrize("make", TELL_IDS)
def test_wrong_token_at_temperature_0_is_caught_by_asking_again(make):
    report = probed(make(model=FakeModel(rule="second")), QUICK)
    assert (report.verdict, report.cause) == (Verdict.NOT_LOSSLESS, "greedy-differs")
    assert all(split.gap > 0.69 for split in report.equality.splits)


@pytest.mark.parametrize("make", TELL_IDS)
def test_near_tie_is_no_harm_while_it_is_rare(make):
    options = ProbeOptions(n_prompts=1, n_tokens=16, n_draws=0, seed=3)
    report = probed(make(model=FakeModel(rule="tie")), options)
    assert report.verdict is Verdict.ON
    assert report.equality.result == "near-ties"


def test_too_many_near_ties_are_no_coincidence():
    report = probed(FakeVllm(model=FakeModel(rule="tie")), QUICK)
    assert report.equality.result == "different"
    assert {split.verdict for split in report.equality.splits} == {"near-tie"}


@pytest.mark.parametrize("make", TELL_IDS)
def test_min_p_that_is_dropped_after_the_first_token_is_a_warning(make):
    report = probed(make(model=FakeModel(min_p="dropped")))
    assert report.law.min_p == "ignored"
    assert "min-p-dropped" in names(report)
    assert probed(make()).law.min_p == "honoured"


def test_min_p_that_is_refused_is_said():
    report = probed(FakeVllm(model=FakeModel(min_p="refused")))
    assert report.verdict is Verdict.ON
    assert "min-p-refused" in names(report)


@pytest.mark.parametrize("make", TELL_IDS)
def test_requests_of_others_are_noticed(make):
    report = probed(make(model=FakeModel(foreign=1)), QUICK)
    assert report.drafting.foreign > 0
    assert "foreign-traffic" in names(report)
    assert report.verdict is Verdict.ON


def test_counts_of_the_answers_are_taken_before_counters_that_others_moved():
    server = FakeVllm(model=FakeModel(foreign=1), per_request=True)
    report = probed(server, QUICK)
    assert report.drafting.basis == "answers"
    assert report.drafting.drafted == 2 * 7 * 4


@pytest.mark.parametrize("make", [*TELL_IDS, FakeTensorrtLlm, FakeLeadout])
def test_answers_of_two_servers_are_compared(make):
    report = probed(make(), plain=make(model=FakeModel(drafts=False)))
    assert report.verdict is Verdict.ON
    assert report.equality.method == "plain side"
    assert report.equality.result == "equal"
    assert report.law.result == "follows"
    assert report.speedup.n == 2


@pytest.mark.parametrize("make", [*TELL_IDS, FakeTensorrtLlm])
def test_greedy_verification_is_caught_beside_a_plain_server(make):
    report = probed(make(model=FakeModel(rule="greedy")), plain=make(model=FakeModel(drafts=False)))
    assert (report.verdict, report.cause) == (Verdict.NOT_LOSSLESS, "greedy-verification")


@pytest.mark.parametrize("make", TELL_IDS)
def test_difference_from_a_plain_server_is_diagnosed_at_the_split(make):
    report = probed(make(model=FakeModel(rule="second")), QUICK, plain=make(model=FakeModel(drafts=False)))
    assert (report.verdict, report.cause) == (Verdict.NOT_LOSSLESS, "greedy-differs")
    split = report.equality.splits[0]
    assert split.said != split.plain


def test_difference_in_text_without_probabilities_stays_undecided():
    server = FakeTensorrtLlm(model=FakeModel(rule="second"))
    report = probed(server, QUICK, plain=FakeTensorrtLlm(model=FakeModel(drafts=False)))
    assert (report.verdict, report.cause, report.exit_code) == (Verdict.UNKNOWN, "greedy-undecided", 6)


def test_difference_in_text_is_diagnosed_where_the_plain_side_tells_probabilities():
    server = FakeTensorrtLlm(model=FakeModel(rule="second"))
    report = probed(server, QUICK, plain=FakeOllama(model=FakeModel(drafts=False)))
    assert (report.verdict, report.cause) == (Verdict.NOT_LOSSLESS, "greedy-differs")


# --- what each engine's set-up shows


def test_vllm_without_a_speculative_configuration_is_off():
    report = probed(FakeVllm(configured=False, model=FakeModel(drafts=False)), QUICK)
    assert (report.verdict, report.cause, report.exit_code) == (Verdict.OFF, "no-speculative-config", 3)


def test_server_that_is_off_is_not_asked_for_samples():
    server = FakeVllm(configured=False, model=FakeModel(drafts=False))
    report = probed(server)
    assert report.law.n_draws == 0
    assert not any(body.get("temperature") == 1.0 for body in server.seen)


def test_vllm_whose_counters_exist_but_do_not_grow_is_useless():
    report = probed(FakeVllm(model=FakeModel(drafts=False)), QUICK)
    assert (report.verdict, report.cause) == (Verdict.USELESS, "nothing-drafted")


def test_vllm_without_statistics_cannot_be_judged():
    report = probed(FakeVllm(has_stats=False), QUICK)
    assert (report.verdict, report.exit_code) == (Verdict.UNKNOWN, 6)
    assert "stats-disabled" in names(report)


@pytest.mark.parametrize("rule", ["fly", "synthetic"])
def test_vllm_with_a_lossy_rule_is_not_lossless(rule):
    report = probed(FakeVllm(method=rule), QUICK)
    assert (report.verdict, report.cause) == (Verdict.NOT_LOSSLESS, "lossy-rule")


@pytest.mark.parametrize(
    ("set_up", "cause"),
    [
        ({}, "no-speculative-algorithm"),
        ({"speculative_algorithm": None, "speculative_draft_model_path": "d"}, "draft-without-algorithm"),
    ],
)
def test_sglang_that_ignores_its_draft_is_off(set_up, cause):
    report = probed(FakeSglang(set_up=set_up, model=FakeModel(drafts=False)), QUICK)
    assert (report.verdict, report.cause) == (Verdict.OFF, cause)


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"device": "cpu"}, "greedy-verify-device"),
        ({"max_running_requests": 48}, "request-cap"),
        ({}, "min-p-unapplied"),
    ],
)
def test_sglang_side_effects_are_named(more, name):
    report = probed(FakeSglang(set_up={"speculative_algorithm": "EAGLE", **more}), QUICK)
    assert report.verdict is Verdict.ON
    assert name in names(report)


def test_sglang_threshold_below_1_is_lossy():
    set_up = {"speculative_algorithm": "EAGLE", "speculative_accept_threshold_single": 0.9}
    assert probed(FakeSglang(set_up=set_up), QUICK).cause == "lossy-rule"


def test_llama_server_without_spec_type_is_off():
    report = probed(FakeLlamaServer(types="none", built=False, model=FakeModel(drafts=False)), QUICK)
    assert (report.verdict, report.cause) == (Verdict.OFF, "missing-spec-type")
    assert "-md" in report.explanation
    assert "--spec-type draft-simple" in report.explanation


def test_llama_server_whose_drafter_was_not_built_is_off():
    report = probed(FakeLlamaServer(built=False, model=FakeModel(drafts=False)), QUICK)
    assert (report.verdict, report.cause) == (Verdict.OFF, "drafter-not-built")
    assert "vocabulary" in report.explanation


def test_llama_server_lookup_that_finds_nothing_is_useless():
    report = probed(FakeLlamaServer(types="ngram-mod", model=FakeModel(drafts=False)), QUICK)
    assert (report.verdict, report.cause) == (Verdict.USELESS, "nothing-drafted")


def test_llama_server_pages_that_are_turned_off_are_noted():
    report = probed(FakeLlamaServer(has_metrics=False, has_slots=False), QUICK)
    assert report.verdict is Verdict.ON
    assert {"slots-hidden"} <= names(report)
    assert "metrics-hidden" in names(probed(FakeLlamaServer(has_metrics=False), QUICK))


def test_probabilities_left_out_for_drafted_tokens_are_a_warning():
    report = probed(FakeLlamaServer(blank=True), QUICK)
    assert "blank-logprobs" in names(report)


def test_tensorrt_llm_without_statistics_cannot_be_judged():
    report = probed(FakeTensorrtLlm(has_stats=False), QUICK)
    assert report.verdict is Verdict.UNKNOWN
    assert "stats-disabled" in names(report)


def test_tensorrt_llm_needs_a_plain_server_to_be_called_unharmed():
    report = probed(FakeTensorrtLlm())
    assert (report.verdict, report.cause) == (Verdict.UNKNOWN, "greedy-unchecked")
    assert report.drafting.drafted > 0


def test_tensorrt_llm_without_drafts_is_off():
    report = probed(FakeTensorrtLlm(model=FakeModel(drafts=False)), QUICK)
    assert (report.verdict, report.cause) == (Verdict.OFF, "no-speculative-config")


@pytest.mark.parametrize(
    ("modelfile", "parameters"),
    [("FROM a.gguf\n", ""), ("FROM a.gguf\nDRAFT b.gguf\n", "draft_num_predict              0\n")],
)
def test_ollama_without_a_draft_layer_is_off(modelfile, parameters):
    server = FakeOllama(modelfile=modelfile, parameters=parameters, model=FakeModel(drafts=False))
    report = probed(server, QUICK)
    assert (report.verdict, report.cause) == (Verdict.OFF, "no-draft-layer")


def test_ollama_counts_nothing_and_so_proves_nothing():
    report = probed(FakeOllama(), QUICK)
    assert (report.verdict, report.cause) == (Verdict.UNKNOWN, "not-told")
    assert "log" in report.explanation


def test_mlx_lm_is_compared_with_itself_without_its_draft():
    server = FakeMlxLm()
    report = probed(server)
    assert report.plain_url == report.url
    assert report.equality.result == "equal"
    assert report.law.method == "two samples"
    assert report.law.result == "follows"
    assert any("draft_model" in body and body["draft_model"] is None for body in server.seen)


@pytest.mark.parametrize("place", ["stats", "usage"])
def test_lm_studio_counts_where_a_draft_is_named(place):
    options = ProbeOptions(n_prompts=2, n_tokens=32, n_draws=100, seed=3, draft_model="toy-draft")
    report = probed(FakeLmStudio(place=place), options)
    assert report.verdict is Verdict.ON
    assert report.model == "toy"
    assert report.drafting.drafted == 2 * 7 * 4


def test_lm_studio_without_a_named_draft_is_off():
    report = probed(FakeLmStudio(), QUICK, model="toy")
    assert (report.verdict, report.cause) == (Verdict.OFF, "no-draft-named")


def test_leadout_is_switched_off_by_request_for_the_comparison():
    server = FakeLeadout()
    report = probed(server)
    assert report.verdict is Verdict.ON
    assert any(body.get("speculation") == "off" for body in server.seen)


def test_leadout_that_drafts_nothing_says_why_itself():
    report = probed(FakeLeadout(model=FakeModel(drafts=False), reason="no draft was named"), QUICK)
    assert report.verdict is Verdict.OFF
    assert "no draft was named" in report.explanation


def test_drafting_that_stops_after_a_long_text_is_a_warning():
    class StopsAfterLongTexts(FakeModel):
        def answer(self, ids, n, temperature=0.0, min_p=0.0, *, drafts=True):
            return super().answer(ids, n, temperature, min_p, drafts=drafts and len(ids) < 2000)

    options = ProbeOptions(n_prompts=2, n_tokens=32, n_draws=0, seed=3, long_prompt=1000)
    report = probed(FakeLlamaServer(model=StopsAfterLongTexts()), options)
    assert "draft-context" in names(report)
    assert "draft-context" not in names(probed(FakeLlamaServer(), options))
