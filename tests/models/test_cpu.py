"""Reading CPUs from text, and refusing those that a library would crash on."""

import pytest

from leadout.errors import ProviderError
from leadout.models import binding_llama, ik_limits
from leadout.models.cpu import (
    Cpu,
    count_cores,
    parse_cpu_max,
    parse_cpuinfo,
    parse_system_info,
    read_cpu,
    usable_cores,
)

OLD = "processor\t: 0\nmodel name\t: Old Xeon\nflags\t\t: fpu sse2 pni ssse3 avx f16c\n"
NEW = OLD.replace("Old Xeon", "New EPYC").replace("f16c", "f16c fma avx2 avx512f avx512vbmi")


def processor(number, package, core):
    return f"processor\t: {number}\nphysical id\t: {package}\ncore id\t\t: {core}\n"


def test_name_and_flags_are_read():
    cpu = parse_cpuinfo(NEW)
    assert cpu.model == "New EPYC"
    assert cpu.lacks(["avx2", "fma", "avx512_vbmi", "pni"]) == []
    assert cpu.lacks(["avx2", "avx_vnni", "amx_int8"]) == ["amx_int8", "avx_vnni"]


@pytest.mark.parametrize("text", ["", "processor\t: 0\nFeatures\t: fp asimd\n"])
def test_another_system_is_unknown_and_lacks_nothing_for_certain(text):
    assert parse_cpuinfo(text) == Cpu(model="unknown", flags=None)
    assert parse_cpuinfo(text).lacks(["avx2"]) == []


def test_ik_refuses_a_cpu_without_its_instructions_before_it_is_loaded():
    with pytest.raises(ProviderError, match=r"needs a CPU with avx2, f16c, fma.*Old Xeon.*lacks avx2, fma"):
        ik_limits.check_cpu(parse_cpuinfo(OLD), "x86_64")
    ik_limits.check_cpu(parse_cpuinfo(NEW), "x86_64")
    ik_limits.check_cpu(parse_cpuinfo(OLD), "aarch64")
    ik_limits.check_cpu(Cpu(model="unknown", flags=None), "AMD64")


def test_llama_refuses_a_cpu_that_lacks_what_it_was_compiled_for():
    info = "CPU : SSE3 = 1 | AVX = 1 | AVX2 = 1 | FMA = 1 | AVX_VNNI = 0 | AVX512 = 1 | LLAMAFILE = 1 | "
    assert parse_system_info(info) == {"pni", "avx", "avx2", "fma", "avx512f"}
    with pytest.raises(ProviderError, match=r"compiled for a CPU with avx2, avx512f, fma, which .*Old Xeon"):
        binding_llama.check_cpu(parse_cpuinfo(OLD), info)
    binding_llama.check_cpu(parse_cpuinfo(NEW), info)


def test_hyperthreads_are_not_cores():
    text = "\n".join([processor(0, 0, 0), processor(1, 0, 1), processor(2, 0, 0), processor(3, 1, 0)])
    assert count_cores(text, {0, 1, 2, 3}) == 3
    assert count_cores(text, {0, 2}) == 1
    assert count_cores(text, {3}) == 1


def test_processors_without_core_ids_count_one_each():
    text = "\n".join(f"processor\t: {number}\nBogoMIPS\t: 50\n" for number in range(4))
    assert count_cores(text, {0, 1, 2}) == 3
    assert count_cores("", {0, 1}) == 2


@pytest.mark.parametrize(
    ("text", "cores"),
    [("max 100000\n", None), ("", None), ("250000 100000\n", 2), ("50000 100000\n", 1)],
)
def test_a_quota_grants_whole_cores_at_least_one(text, cores):
    assert parse_cpu_max(text) == cores


def test_this_machine_has_a_core_to_use():
    assert usable_cores() >= 1
    assert read_cpu().model
