"""Tuning on simulated models: what each way costs is given, so what must be chosen is known."""

import json

import pytest

from leadout.advise.tune import choose, tune, ways_to_try
from leadout.advise.ways import Way
from leadout.core.cost import CostTable, speed_of
from leadout.errors import BackendError, ProviderError
from leadout.models.options import GgufOptions
from leadout.models.tuned import Tuned, TunedModel, recall, remember, tuned_key
from leadout.testing import PieceVocabulary, TableModel, saying

N_VOCAB = 10
WAYS = ways_to_try(("ik", "llama"), 2)


class Reciting(PieceVocabulary):
    """Every text is 0, 1, 2 ... here."""

    def encode(self, text, *, add_bos, special):
        return [i % N_VOCAB for i in range(30)]


class Simulated(TableModel):
    """Each pass moves a shared clock by what its way costs; one guess in ten of `misses` is wrong."""

    def __init__(self, now, seconds, misses=0, n_ctx=400):
        vocab = Reciting([f" {i}".encode() for i in range(N_VOCAB)])
        super().__init__(
            saying(lambda tokens: (tokens[-1] + 1 + (len(tokens) % 10 < misses)) % N_VOCAB, N_VOCAB),
            n_vocab=N_VOCAB, n_ctx=n_ctx, vocab=vocab,
        )  # fmt: skip
        self._now, self._seconds = now, seconds
        self.is_closed = False

    def forward(self, chunks):
        self._now[0] += self._seconds(sum(len(chunk.tokens) for chunk in chunks))
        return super().forward([*chunks])

    def close(self):
        self.is_closed = True
        super().close()


class Machine:
    """Opens simulated models, and knows the time."""

    def __init__(self, n_ctx=400):
        self.n_ctx = n_ctx
        self.now, self.opened, self.shown = [0.0], [], []

    def clock(self):
        return self.now[0]

    def show(self, part, done, total):
        self.shown.append((part, done, total))

    def opener(self, seconds, misses=lambda way: 0, refuses=lambda way: False):
        def open_one(way):
            if refuses(way):
                raise ProviderError(f"{way.provider} is not installed")
            self.opened.append(
                Simulated(self.now, lambda width: seconds(way, width), misses(way), self.n_ctx)
            )
            return self.opened[-1]

        return open_one

    def tune(self, *models, **options):
        return tune(*models, clock=self.clock, show=self.show, contexts=(32, 128), **options)


def costs(way, width):
    """ik verifies cheaper; one thread takes nearly twice as long; small caches make no difference."""
    slope = {"ik": 0.4, "llama": 0.8}[way.provider]
    return 0.03 * (1 + slope * (width - 1)) * {1: 1.8, 2: 1.0}[way.n_threads]


def draft_costs(way, width):
    return costs(way, width) / 10


def test_the_library_and_the_threads_that_are_faster_are_chosen():
    machine = Machine()
    report = machine.tune(machine.opener(costs), WAYS)
    assert report.choice.target == TunedModel(provider="ik", n_threads=2)
    assert report.choice.draft is None
    assert report.choice.reason == "ik, 2 threads: 33.3 tokens/s plainly, llama, 2 threads: 33.3"
    assert len(report.targets) == 4
    assert report.startup().costs.verify_s(4) == pytest.approx(0.066)
    assert all(model.is_closed for model in machine.opened)
    assert ("the target", 4, 4) in machine.shown
    assert json.loads(json.dumps(report.to_json()))["choice"]["target"]["provider"] == "ik"


def test_a_busy_machine_is_told():
    machine, n_passes = Machine(), [0]

    def disturbed(way, width):
        n_passes[0] += 1
        return costs(way, width) * (1 if n_passes[0] % 4 else 1 / 3)

    assert not machine.tune(machine.opener(costs), WAYS[:1]).warning
    warning = machine.tune(machine.opener(disturbed), WAYS[:1]).warning
    assert warning.startswith("something else kept this machine busy: passes took 3.0 times as long")
    assert warning.endswith("tune again when the machine is idle")


def test_what_attention_costs_is_told_to_the_schedule():
    class Attending(Simulated):
        def forward(self, chunks):
            now[0] += 5e-5 * len(chunks[0].tokens) * self.length(0)
            return super().forward(chunks)

    machine = Machine()
    now = machine.now
    report = machine.tune(lambda way: Attending(now, lambda width: costs(way, width)), WAYS[:1])
    found = report.startup().costs
    assert found.attention_s == pytest.approx(5e-5, rel=0.01)
    assert report.targets[0].long.verify_s(4) == pytest.approx(found.behind(128 - 32).verify_s(4), rel=0.01)


def test_a_smaller_cache_of_the_target_is_told_and_never_taken():
    machine = Machine()
    faster = machine.opener(lambda way, width: costs(way, width) * (1 if way.kv_type == "f16" else 0.5))
    report = machine.tune(faster, WAYS)
    assert {trial.way.kv_type for trial in report.caches} == {"q8_0", "q4_0"}
    assert min(trial.tokens_per_s for trial in report.caches) > report.targets[0].tokens_per_s
    assert report.choice.target.kv_type == "f16"


def test_a_cache_that_halves_acceptance_at_the_same_speed_is_ranked_below():
    machine = Machine()
    misses = {"f16": 3, "q8_0": 3, "q4_0": 6}
    report = machine.tune(
        machine.opener(costs), WAYS, machine.opener(draft_costs, lambda way: misses[way.kv_type])
    )
    by_cache = {trial.way.kv_type: trial for trial in report.drafts if trial.way.n_threads == 2}
    assert by_cache["f16"].acceptance == pytest.approx(0.7, abs=0.02)
    assert by_cache["q4_0"].acceptance == pytest.approx(0.4, abs=0.03)
    target = report.targets[0].short
    assert by_cache["f16"].best(target)[1] > 1.1 * by_cache["q4_0"].best(target)[1]
    assert report.drafts.index(by_cache["f16"]) < report.drafts.index(by_cache["q4_0"])
    assert report.choice.draft == TunedModel(provider="ik", n_threads=2)
    assert len(report.startup().agreements) > 60
    assert all(each.n_rounds > 0 and each.round_s > 0 for each in report.pairs)


def test_of_two_draft_files_the_one_with_more_tokens_per_second_wins():
    def speed(misses, factor):
        machine = Machine()
        report = machine.tune(
            machine.opener(costs),
            WAYS,
            machine.opener(lambda way, width: factor * draft_costs(way, width), lambda way: misses),
        )
        return report.pairs[0].tokens_per_s

    assert speed(misses=1, factor=1.5) > speed(misses=3, factor=1.0)
    assert speed(misses=1, factor=6.0) < speed(misses=3, factor=1.0)


def test_target_and_draft_may_run_in_different_libraries():
    def draft(way, width):
        return draft_costs(way, width) * {"ik": 4.0, "llama": 1.0}[way.provider]

    machine = Machine()
    report = machine.tune(machine.opener(costs), WAYS, machine.opener(draft, lambda way: 1))
    assert (report.choice.target.provider, report.choice.draft.provider) == ("ik", "llama")
    assert "; draft with llama, 2 threads: " in report.choice.reason
    assert len(report.pairs) == 4


@pytest.mark.parametrize("n_ctx", [8, 16, 17, 40, 64])
def test_pairs_with_little_room_are_tuned_too(n_ctx):
    machine = Machine(n_ctx)
    report = machine.tune(machine.opener(costs), WAYS, machine.opener(draft_costs, lambda way: 1))
    assert all(pair.round_s > 0 for pair in report.pairs)
    assert report.choice.target.provider == "ik"


def test_two_libraries_that_slow_each_other_down_are_seen_by_running_them_together():
    machine = Machine()
    running = []

    def target_s(way, width):
        return costs(way, width)

    def open_target(way):
        running[:] = [way.provider]
        return machine.opener(target_s)(way)

    def draft_s(way, width):
        mixed = running and running[0] != way.provider
        return draft_costs(way, width) * {"ik": 1.5, "llama": 1.0}[way.provider] * (8 if mixed else 1)

    report = machine.tune(open_target, [Way(provider="ik", n_threads=2), Way(provider="llama", n_threads=2)],
                          machine.opener(draft_s, lambda way: 1))  # fmt: skip
    assert (report.choice.target.provider, report.choice.draft.provider) == ("ik", "ik")


def test_what_cannot_be_run_is_left_out_and_said():
    machine = Machine()
    report = machine.tune(machine.opener(costs, refuses=lambda way: way.provider == "ik"), WAYS)
    assert report.choice.target.provider == "llama"
    assert report.failures[0] == "the target with ik, 2 threads: ik is not installed"
    with pytest.raises(ProviderError, match=r"nothing here can run it: .*llama is not installed"):
        machine.tune(machine.opener(costs, refuses=lambda way: True), WAYS)
    with pytest.raises(ProviderError, match="nothing here can run it"):
        machine.tune(machine.opener(costs), WAYS, machine.opener(costs, refuses=lambda way: True))


def test_what_fails_while_it_is_measured_is_left_out_too():
    def failing(way, width):
        if way.provider == "ik" and width > 4:
            raise BackendError("out of memory")
        return costs(way, width)

    report = Machine().tune(Machine().opener(failing), WAYS)
    assert report.choice.target.provider == "llama"
    assert report.failures == (
        "the target with ik, 2 threads: out of memory", "the target with ik, 1 thread: out of memory",
    )  # fmt: skip


def test_a_draft_that_makes_it_slower_is_called_so():
    machine = Machine()
    report = machine.tune(machine.opener(costs), WAYS, machine.opener(costs, lambda way: 9))
    assert report.choice.reason.endswith(", slower than without it")
    pays = machine.tune(machine.opener(costs), WAYS, machine.opener(draft_costs))
    assert not pays.choice.reason.endswith(", slower than without it")


def test_a_draft_of_half_the_targets_work_is_predicted_to_lose():
    flat = CostTable(widths=((1, 17.0), (16, 17.0001)), draft_s=9.0)
    assert speed_of(3, 0.7, flat) / speed_of(0, 0.7, flat) == pytest.approx(0.98, abs=0.005)
    dense = CostTable(widths=((1, 32.0), (16, 32.0001)), draft_s=0.5)
    assert speed_of(3, 0.7, dense) / speed_of(0, 0.7, dense) > 2


def test_ways_begin_with_all_cores_and_never_have_none():
    assert [str(way) for way in ways_to_try(("ik", "llama"), 8)] == [
        "ik, 8 threads", "llama, 8 threads", "ik, 7 threads", "llama, 7 threads", "ik, 4 threads",
        "llama, 4 threads",
    ]  # fmt: skip
    assert [way.n_threads for way in ways_to_try(("ik",), 1)] == [1]
    assert str(Way(provider="ik", n_threads=1, kv_type="q8_0")) == "ik, 1 thread, q8_0 cache"


def test_a_choice_is_remembered_for_these_files_alone(tmp_path):
    one, other = tmp_path / "one.gguf", tmp_path / "other.gguf"
    one.write_bytes(b"1"), other.write_bytes(b"2")
    choice = Tuned(
        target=TunedModel(provider="ik", n_threads=3),
        draft=TunedModel(provider="llama", n_threads=1, kv_type="q8_0"),
        reason="fast",
    )
    folder = tmp_path / "kept"
    remember(tuned_key([one], [other]), choice, folder)
    assert recall(tuned_key([one], [other]), folder) == choice
    assert recall(tuned_key([one]), folder) is None
    assert recall(tuned_key([other], [one]), folder) is None
    for damaged in ({"provider": "cuda"}, {"n_threads": 0}, {"n_threads": True}, {"kv_type": "q1"}):
        values = {"target": {"provider": "ik", "n_threads": 3, "kv_type": "f16"} | damaged, "reason": ""}
        (folder / f"{tuned_key([one])}.json").write_text(json.dumps(values))
        assert recall(tuned_key([one]), folder) is None


def test_what_the_user_asked_for_is_not_overruled():
    tuned = TunedModel(provider="ik", n_threads=3, kv_type="q8_0")
    assert tuned.options(GgufOptions(), is_draft=False) == GgufOptions(n_threads=3)
    assert tuned.options(GgufOptions(n_threads=5), is_draft=True) == GgufOptions(
        n_threads=5, kv_type_k="q8_0", kv_type_v="q8_0"
    )
    asked = GgufOptions(kv_type_k="q5_1")
    assert tuned.options(asked, is_draft=True).kv_type_k == "q5_1"


def test_the_choice_says_what_was_compared():
    machine = Machine()
    report = machine.tune(machine.opener(costs), WAYS[:1])
    assert choose(report.targets, ()).reason == "ik, 2 threads: 33.3 tokens/s plainly"
