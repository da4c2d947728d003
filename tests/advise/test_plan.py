"""Memory and speed of a pair before anything is loaded."""

import math
from itertools import accumulate, chain, repeat

import pytest
from model_folder import write_shape

from leadout.advise.bandwidth import bandwidth, measure
from leadout.advise.inspect import Reading
from leadout.advise.plan import plan_memory
from leadout.advise.speed import best_speedup, estimated_costs, fixed_speedup
from leadout.advise.verdict import decide, decide_lookups
from leadout.core.cost import CostTable
from leadout.models.header import read_header
from leadout.models.options import GgufOptions
from leadout.models.remember import Findings

FREE = 10**12


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shapes")
    target = write_shape(folder / "target.gguf", n_layers=32, n_head_kv=8, head_size=128)
    draft = write_shape(folder / "draft.gguf", n_layers=16, n_head_kv=8, head_size=64)
    return read_header(target), read_header(draft)


def test_both_caches_are_planned_to_the_byte(pair):
    plan = plan_memory(*pair, GgufOptions(n_ctx=8192), free_bytes=FREE)
    assert (plan.target.kv_bytes, plan.draft.kv_bytes) == (1_073_741_824, 268_435_456)
    assert (plan.target.name, plan.draft.name) == ("target.gguf", "draft.gguf")
    assert plan.target.weight_bytes == pair[0].n_bytes
    assert plan.draft.weight_bytes == pair[1].n_bytes
    assert plan.verify_bytes == 16 * 1000 * 4
    assert (
        plan.total_bytes
        >= 1_073_741_824 + 268_435_456 + pair[0].n_bytes + pair[1].n_bytes + plan.verify_bytes
    )


def test_a_cache_of_8_bits_is_half_as_large_plus_its_scales(pair):
    whole = plan_memory(*pair, GgufOptions(n_ctx=8192), free_bytes=FREE)
    half = plan_memory(*pair, GgufOptions(n_ctx=8192, kv_type_k="q8_0", kv_type_v="q8_0"), free_bytes=FREE)
    for before, after in ((whole.target, half.target), (whole.draft, half.draft)):
        assert (
            after.kv_bytes == before.kv_bytes // 2 + before.kv_bytes // 2 // 16
        )  # 2 bytes for each 32 values


def test_slots_multiply_caches_and_rows(pair):
    one, four = (plan_memory(*pair, GgufOptions(n_ctx=8192, n_slots=n), free_bytes=FREE) for n in (1, 4))
    assert four.target.kv_bytes == 4 * one.target.kv_bytes
    assert four.draft.kv_bytes == 4 * one.draft.kv_bytes
    assert four.verify_bytes == 4 * one.verify_bytes
    assert four.target.weight_bytes == one.target.weight_bytes


def test_the_verdict_counts_the_draft(pair):
    options = GgufOptions(n_ctx=8192)
    needed = plan_memory(*pair, options, free_bytes=FREE).total_bytes
    alone = plan_memory(pair[0], None, options, free_bytes=needed - 1)
    assert alone.fit == "fits"
    assert plan_memory(*pair, options, free_bytes=needed).fit == "fits"
    assert plan_memory(*pair, options, free_bytes=needed - 1).fit == "paged"
    short = plan_memory(*pair, options, free_bytes=alone.total_bytes)
    assert short.fit == "too large"
    assert short.explain().startswith("does not fit into memory: 1.3")
    assert "use a smaller --ctx, fewer slots or --kv-type-k q8_0" in short.explain()


def test_layers_on_a_gpu_leave_main_memory(pair):
    cpu, half, gpu = (
        plan_memory(*pair, GgufOptions(n_ctx=8192, n_gpu_layers=n), free_bytes=FREE) for n in (0, 16, -1)
    )
    assert cpu.target.main_bytes > half.target.main_bytes > gpu.target.main_bytes
    assert gpu.target.kv_bytes == cpu.target.kv_bytes
    assert gpu.explain().endswith("what is on the GPU is not looked at")


def test_a_draft_gets_the_targets_context_but_no_more_than_it_knows(tmp_path, pair):
    from leadout.testing.tiny_gguf import write_tiny_gguf

    short = read_header(write_tiny_gguf(tmp_path / "short.gguf", n_ctx_train=512))
    plan = plan_memory(pair[0], short, GgufOptions(n_ctx=8192), free_bytes=FREE)
    assert (plan.target.n_ctx, plan.draft.n_ctx) == (8192, 512)
    plan = plan_memory(pair[0], short, GgufOptions(), free_bytes=FREE)
    assert (plan.target.n_ctx, plan.draft.n_ctx) == (4096, 512)


def flat(target_s, draft_s):
    """A machine on which wide passes cost no more."""
    return CostTable(widths=((1, target_s), (16, target_s)), draft_s=draft_s)


def test_a_draft_too_dear_for_what_the_target_reads_is_not_recommended():
    speedup = fixed_speedup(flat(17.0, 9.0), 0.7, 3)
    assert speedup == pytest.approx(2.533 / (1 + 3 * 9 / 17))
    verdict = decide(speedup, 1.0, cost_ratio=9 / 17, agreement=0.7)
    assert verdict.advice == "plain"
    assert (
        verdict.sentence == "Not recommended, predicted 0.98x: a pass of the draft costs 53% of the target's."
    )


def test_a_small_draft_for_a_large_dense_target_is_recommended():
    speedup, k = best_speedup(flat(32.0, 0.5), 0.7)
    assert speedup > 2
    assert k >= 3
    assert decide(speedup, 1.0).sentence.startswith("Recommended: predicted 3.")


def test_a_mixture_of_experts_is_judged_by_what_a_pass_reads():
    draft = Reading(dense_bytes=9 * 10**9, bits=8)
    dense = Reading(dense_bytes=109 * 10**9, bits=8)
    mixture = Reading(dense_bytes=10**10, expert_bytes=99 * 10**9, expert_share=7 / 99, bits=8)
    assert mixture.bytes_at(1) == pytest.approx(17e9)
    assert mixture.bytes_at(4) > 2 * mixture.bytes_at(1)
    gain, k = best_speedup(estimated_costs(mixture, draft, 25e9), 0.7, lookups=False)
    assert (gain, k) == (1.0, 0)
    gain, k = best_speedup(estimated_costs(dense, draft, 25e9), 0.7, lookups=False)
    assert gain > 1.1


def test_no_draft_can_be_worse_than_plain_decoding():
    for draft_s in (0.1, 1.0, 10.0):
        for acceptance in (0.0, 0.3, 1.0):
            assert best_speedup(flat(1.0, draft_s), acceptance)[0] >= 1.0


def test_costs_from_sizes_come_near_measured_ones():
    # facts of two cores at 26 GB/s: bytes, weights' bits, layers -> ms for one token
    for n_bytes, bits, n_layers, ms in ((986e6, 4.9, 28, 58), (3.56e9, 16, 28, 136), (98e6, 5, 30, 10.4)):
        reading = Reading(dense_bytes=int(n_bytes), bits=bits, n_layers=n_layers)
        guessed = estimated_costs(reading, None, 26e9).verify_s(1)
        assert abs(math.log(1000 * guessed / ms)) < math.log(1.3)


@pytest.mark.parametrize(
    ("speedup", "lookups", "advice", "said"),
    [
        (1.4, 1.2, "use", "Recommended: predicted 1.40x plain decoding; lookups alone would give 1.20x."),
        (1.4, 1.0, "use", "Recommended: predicted 1.40x plain decoding."),
        (1.2, 1.3, "lookups", "no draft model, lookups pay as much or more (1.30x)"),
        (1.21, 1.2, "lookups", "no draft model, lookups pay as much or more (1.20x)"),
        (1.01, 1.0, "plain", "a pass over several tokens costs too much here"),
    ],
)
def test_the_sentence_says_what_to_do_and_why(speedup, lookups, advice, said):
    verdict = decide(speedup, lookups)
    assert verdict.advice == advice
    assert said in verdict.sentence


def test_reasons_are_named_where_they_are_known():
    assert (
        "only 31% of the draft's tokens are what the target says"
        in decide(1.0, 1.0, agreement=0.31, cost_ratio=0.1).sentence
    )
    assert decide_lookups(1.3).sentence == "No draft model: lookups alone are predicted to give 1.30x."
    assert decide_lookups(1.0).sentence.startswith("This target is too small to gain")


def test_memory_speed_is_measured_once(tmp_path):
    findings = Findings("machine", tmp_path)
    first = bandwidth(findings)
    assert first > 1e6
    assert bandwidth(findings, clock=lambda: pytest.fail("measured again")) == first
    ticks = iter(range(100))
    speed, times = measure(1, clock=lambda: next(ticks))
    assert (speed <= 256_000_000, times) == (True, 1.0)


def test_memory_speed_of_a_busy_moment_is_not_kept(tmp_path):
    findings = Findings("machine", tmp_path)
    ticks = accumulate(chain.from_iterable((0.0, seconds) for seconds in (1.0, 5.0, 5.0, 5.0)))
    busy = bandwidth(findings, clock=lambda: next(ticks))
    assert bandwidth(findings, clock=accumulate(repeat(0.1)).__next__) == pytest.approx(10 * busy)
