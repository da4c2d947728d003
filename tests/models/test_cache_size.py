"""Estimating a cache, and what is free for it."""

import subprocess
import sys

import pytest
from passes import need

from leadout.errors import InputError, ProviderError
from leadout.models import binding_ik, binding_llama
from leadout.models.cache_size import CacheSize, cache_size, require_memory
from leadout.models.free_memory import free_bytes, group_free
from leadout.models.header import read_header
from leadout.models.ik_limits import MAX_SLOTS
from leadout.models.open import open_model
from leadout.models.options import GgufOptions


def size_of(path, **options):
    return cache_size(read_header(path), GgufOptions(**options), work_width=1, n_rows=1, is_flash=True)


def test_a_cache_holds_keys_and_values_of_every_layer(tiny):
    # 2 layers, 1 head of 32 values: 2 * (32 + 32) values, and 4 bytes of work space
    assert size_of(tiny["llama"]).per_position == 2 * 64 * 2 + 4
    assert size_of(tiny["llama"], kv_type_k="q8_0", kv_type_v="f32").per_position == 2 * (34 + 128) + 4
    assert size_of(tiny["gemma3"]).per_position == 6 * 64 * 2 + 4


def test_a_running_state_does_not_grow_with_the_context(tiny):
    size = size_of(tiny["mamba"], n_slots=3)
    n_vocab = read_header(tiny["mamba"]).n_vocab
    assert size == CacheSize(per_position=0, fixed=4 * (3 * 2 * (3 * 128 + 128 * 16) + n_vocab))


def test_layers_on_a_gpu_are_not_counted(tiny):
    assert size_of(tiny["gemma3"], n_gpu_layers=3).per_position == size_of(tiny["gemma3"]).per_position / 2
    for n_layers in (-1, 6, 99):
        assert size_of(tiny["gemma3"], n_gpu_layers=n_layers).per_position == 0


def test_scores_of_a_whole_pass_count_without_flash_attention(tiny):
    header = read_header(tiny["llama"])
    off, on = (binding_llama.size_of_cache(header, GgufOptions(flash_attn=f)) for f in ("off", "on"))
    assert off.per_position - on.per_position == 4 * 512  # one more head
    assert binding_ik.size_of_cache(header, GgufOptions()).per_position == 256 + 4 * 2 * 31


def test_the_refusal_names_what_would_fit(tiny):
    header = read_header(tiny["llama"])
    size = CacheSize(per_position=1000, fixed=500_000)
    options = GgufOptions(n_ctx=10_000, n_slots=2)
    require_memory(header, options, size, 20_500_000)
    with pytest.raises(
        InputError,
        match=r"a cache of 2 x 10,000 positions for llama\.gguf would take about 20\.5 MB, "
        r"and 20\.0 MB of memory are free; use --ctx 9728 \(n_ctx\) or less",
    ):
        require_memory(header, options, size, 20_000_000)
    with pytest.raises(InputError, match="use --ctx 48"):
        require_memory(header, options, size, 600_000)
    with pytest.raises(InputError, match="free some memory, or use fewer slots"):
        require_memory(header, options, size, 400_000)
    with pytest.raises(InputError, match=r"the weights and a cache .* use --ctx 7168 "):
        require_memory(header, options, size, 20_500_000, n_weight_bytes=5_500_000)


def test_what_is_suggested_fits(tiny):
    header = read_header(tiny["llama"])
    size = CacheSize(per_position=333.3, fixed=12_345)
    for free in range(100_000, 10_000_000, 77_777):
        with pytest.raises(InputError) as raised:
            require_memory(header, GgufOptions(n_ctx=10**8, n_slots=3), size, free)
        n_ctx = int(str(raised.value).split("--ctx ")[1].split()[0])
        require_memory(header, GgufOptions(n_ctx=n_ctx, n_slots=3), size, free)


@pytest.mark.parametrize("n_ctx", [2_000_000_000, 2**31 - 256])
def test_a_huge_context_is_refused_in_one_line(tiny, provider, n_ctx):
    with pytest.raises(InputError, match=r"would take about [\d,.]+ GB, and [\d,.]+ GB .* use --ctx \d+"):
        open_model(tiny["llama"], provider=provider, options=GgufOptions(n_ctx=n_ctx))


def test_a_huge_context_costs_a_recurrent_model_nothing(tiny):
    need("llama")
    open_model(tiny["mamba"], provider="llama", options=GgufOptions(n_ctx=2**31 - 256)).close()


@pytest.mark.skipif(sys.platform != "linux", reason="sets a limit of Linux")
def test_a_limit_of_the_process_is_respected(tiny, provider):
    code = (
        "import resource, sys\n"
        "from leadout.errors import InputError\n"
        "from leadout.models.open import open_model\n"
        "from leadout.models.options import GgufOptions\n"
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
        "try: open_model(sys.argv[1], provider=sys.argv[2], options=GgufOptions(n_ctx=20_000_000))\n"
        "except InputError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tiny["llama"], provider],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "a cache of 1 x 20,000,000 positions" in done.stdout


def test_free_memory_is_a_plausible_number():
    assert 1e6 < free_bytes() < 1e15


def group(folder, limit, used, stat="", *, names=("memory.max", "memory.current")):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in zip((*names, "memory.stat"), (limit, used, stat), strict=True):
        (folder / name).write_text(f"{text}\n")


def test_the_tightest_control_group_counts(tmp_path):
    assert group_free("0::/a/b\n", tmp_path) is None
    group(tmp_path / "a" / "b", "max", 10)
    assert group_free("0::/a/b\n", tmp_path) is None
    group(tmp_path / "a", 1000, 900)
    assert group_free("0::/a/b\n", tmp_path) == 100
    group(tmp_path / "a", 1000, 900, "anon 5\ninactive_file 300\nactive_file 50")
    assert group_free("0::/a/b\n", tmp_path) == 450
    group(tmp_path, 300, 100)  # as a container sees its own
    assert group_free("0::/a/b\n", tmp_path) == 200
    assert group_free("0::/../elsewhere\n", tmp_path) == 200


def test_control_groups_of_version_1(tmp_path):
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
    group(tmp_path / "memory" / "a", 500, 450, "total_inactive_file 25", names=names)
    assert group_free("5:cpu:/x\n4:memory:/a\n", tmp_path) == 75
    assert group_free("", tmp_path) is None
    assert group_free("nonsense\n", tmp_path) is None


def test_ik_refuses_more_slots_than_it_has_room_for(tiny):
    need("ik")
    small = {"n_ctx": 16, "n_threads": 1}
    with pytest.raises(ProviderError, match=f"n_slots is {MAX_SLOTS + 1}, but the ik .* for {MAX_SLOTS}"):
        open_model(tiny["llama"], provider="ik", options=GgufOptions(n_slots=MAX_SLOTS + 1, **small))
    model = open_model(tiny["llama"], provider="ik", options=GgufOptions(n_slots=MAX_SLOTS, **small))
    assert 1 in model.exact_widths()
    with pytest.raises(
        ProviderError, match=r"slots of all models of a process together, and they are in use"
    ):
        open_model(tiny["llama"], provider="ik", options=GgufOptions(n_slots=2, **small))
    model.close()
    for _ in range(4):  # places are given back
        open_model(tiny["llama"], provider="ik", options=GgufOptions(n_slots=MAX_SLOTS, **small)).close()


def test_auto_takes_llama_for_many_slots(tiny):
    need("ik")
    need("llama")
    model = open_model(tiny["llama"], options=GgufOptions(n_ctx=16, n_slots=64, n_threads=1))
    assert model.info.provider == "llama"
    assert "n_slots is 64" in model.info.provider_reason
    model.close()


def test_slots_may_outnumber_a_batch(load):
    model = load(n_batch=1, n_slots=3)
    assert model.info.n_slots == 3
