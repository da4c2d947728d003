"""Options are checked where they are built."""

import numpy as np
import pytest
from passes import assert_same, feed, fresh, need, text_of

from leadout.errors import InputError, ProviderError
from leadout.models.open import open_model
from leadout.models.options import GgufOptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_ctx": 0}, "n_ctx is 0; it must be a whole number >= 8"),
        ({"n_ctx": 64.0}, "n_ctx is 64.0"),
        ({"n_ctx": 1 << 26, "n_slots": 64}, "n_ctx is 67108864 and n_slots 64: 4294967296 positions in all"),
        ({"n_slots": 65}, r"n_slots is 65; it must be a whole number in 1\.\.64"),
        ({"n_batch": 0}, r"n_batch is 0; it must be a whole number in 1\.\.8192"),
        ({"n_threads": True}, "n_threads is True"),
        ({"n_gpu_layers": -2}, "n_gpu_layers is -2; it must be a whole number >= -1"),
        ({"flash_attn": "yes"}, "flash_attn is 'yes'; it must be one of auto, on, off"),
        ({"kv_type_k": "q9"}, "kv_type_k is 'q9'; it must be one of f32, f16"),
        ({"kv_type_v": "q8_0", "flash_attn": "off"}, "kv_type_v is 'q8_0', which needs flash attention"),
        ({"rope_freq_base": 0.0}, "rope_freq_base is 0.0; it must be a number > 0"),
        ({"rope_freq_scale": float("nan")}, "rope_freq_scale is nan"),
        ({"rope_scaling": "ntk"}, "rope_scaling is 'ntk'; it must be one of none, linear, yarn"),
        ({"yarn_ext_factor": -1.0}, "yarn_ext_factor is -1.0; it must be a number >= 0"),
        ({"yarn_orig_ctx": 0}, "yarn_orig_ctx is 0"),
    ],
)
def test_a_value_outside_its_range_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        GgufOptions(**options)


def test_the_default_context_is_bounded():
    assert GgufOptions().context_length(131072) == 4096
    assert GgufOptions().context_length(512) == 512
    assert GgufOptions(n_ctx=8192).context_length(512) == 8192


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_gpu_layers": 4}, "n_gpu_layers is 4, but the ik provider"),
        ({"kv_type_k": "f32"}, "kv_type_k is 'f32'; the ik provider has f16, q8_0, q4_0, iq4_nl"),
        ({"rope_scaling": "linear"}, "rope_scaling is 'linear', but ik_llama.cpp scales"),
        ({"yarn_ext_factor": 1.0}, "yarn_ext_factor is 1.0, but"),
        ({"yarn_orig_ctx": 64}, "yarn_orig_ctx is 64, but"),
        ({"kv_type_v": "q5_0"}, "kv_type_v is 'q5_0'; the ik provider has"),
        (
            {"kv_type_k": "q8_0"},
            "kv_type_k is 'q8_0', but for that the ik provider needs heads of a multiple of 64 values",
        ),
    ],
)
def test_ik_refuses_by_name_what_it_cannot_honour(tiny, options, message):
    need("ik")
    with pytest.raises(ProviderError, match=message):
        open_model(tiny["llama"], provider="ik", options=GgufOptions(**options))


def test_llama_without_gpu_support_refuses_gpu_layers(tiny):
    need("llama")
    from llama_cpp import llama_cpp

    if llama_cpp.llama_supports_gpu_offload():
        pytest.skip("this build has GPU support")
    with pytest.raises(
        ProviderError, match="n_gpu_layers is -1, but this build of llama-cpp-python has no GPU"
    ):
        open_model(tiny["llama"], provider="llama", options=GgufOptions(n_gpu_layers=-1))


@pytest.mark.parametrize(
    "options",
    [
        {"use_mmap": False},
        {"flash_attn": "on"},
        {"flash_attn": "off"},
        {"exact": True},
        {"n_batch": 1},
        {"n_threads": 2},
    ],
)
def test_what_must_not_change_the_logits_does_not(load, options):
    model, usual = load(**options), load()
    text = text_of(model, 40)
    assert_same(fresh(model, text, n_logits=5), fresh(usual, text, n_logits=5))


@pytest.mark.parametrize(
    "options",
    [
        {"rope_freq_base": 500.0},
        {"rope_freq_scale": 0.25},
        {"rope_scaling": "yarn", "rope_freq_scale": 0.25, "yarn_orig_ctx": 64},
    ],
)
def test_rotary_options_reach_the_library(load, provider, options):
    if provider == "ik" and "rope_freq_scale" in options:
        with pytest.raises(ProviderError, match=r"rope_freq_scale is 0\.25, but ik_llama\.cpp scales"):
            load(**options)
        return
    model, usual = load(**options), load()
    text = text_of(model, 40)
    assert abs(fresh(model, text) - fresh(usual, text)).max() > 0.5


@pytest.mark.parametrize("kind", ["q8_0", "q4_0", "iq4_nl"])
@pytest.mark.parametrize("flash_attn", ["auto", "on"])
def test_quantised_caches_stay_near_the_full_one(tiny, kind, flash_attn):
    need("llama")
    usual = open_model(tiny["llama"], provider="llama", options=GgufOptions(n_ctx=64))
    text = text_of(usual, 60)
    expected = fresh(usual, text, n_logits=20)
    usual.close()
    for keys, values in ((kind, "f16"), (kind, kind)):
        options = GgufOptions(n_ctx=64, kv_type_k=keys, kv_type_v=values, flash_attn=flash_attn)
        model = open_model(tiny["llama"], provider="llama", options=options)
        rows = feed(model, 0, text, n_logits=20)
        model.close()
        correlations = [np.corrcoef(a, b)[0, 1] for a, b in zip(rows, expected, strict=True)]
        assert abs(rows - expected).max() > 0  # it was really quantised
        assert np.median(correlations) > (0.99 if kind == "q8_0" else 0.8)
