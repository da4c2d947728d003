"""The layers of docs/structure.md, read from the import graph."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "leadout"

ALLOWED = {
    "errors": "",
    "checks": "errors",
    "folders": "errors",
    "core": "errors checks",
    "models": "errors checks folders core",
    "store": "errors checks folders",
    "drafters": "errors checks core models",
    "constraints": "errors checks core models",
    "engine": "errors checks core models drafters",
    "testing": "errors checks core models drafters engine",
    "proof": "errors checks core models drafters engine",
    "loading": "errors checks folders core models drafters engine store advise",
    "bench": "errors checks folders core models drafters constraints engine store loading testing proof"
    " advise",
    "advise": "errors checks folders core models drafters engine store",
    "launch": "errors checks folders models store probe",
    "probe": "errors checks proof bench",
    "receipts": "errors checks core models engine store __init__",
    "server": "errors checks core models drafters constraints engine store loading receipts __init__",
    "cli": "errors checks folders core models drafters constraints engine store loading proof bench advise"
    " launch probe server receipts",
    "__main__": "cli",
    "__init__": "errors core engine loading models",
}
BACKENDS = {"llama_cpp", "ik_llama_cpp", "torch", "transformers"}


def room(path: Path) -> str:
    """The package of a file, or the module's own name at the top level."""
    inside = path.relative_to(ROOT)
    return inside.parts[0] if len(inside.parts) > 1 else inside.stem


def imported(path: Path) -> set[str]:
    """Every module a file imports, at any depth of its code."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


FILES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_one_way(path):
    here = room(path)
    for name in imported(path):
        parts = name.split(".")
        if parts[0] != "leadout" or len(parts) < 2:
            continue
        there = parts[1]
        if (ROOT / there).is_dir() or (ROOT / f"{there}.py").exists():
            assert there == here or there in ALLOWED[here].split(), f"{path} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_bindings_import_backends(path):
    found = {name.split(".")[0] for name in imported(path)} & BACKENDS
    assert not found or path.name.startswith(("binding_", "peer_")), f"{path} imports {found}"


def test_core_needs_numpy_and_the_standard_library_only():
    allowed = {*sys.stdlib_module_names, "numpy", "leadout"}
    for path in (ROOT / "core").glob("*.py"):
        assert {name.split(".")[0] for name in imported(path)} <= allowed, path


@pytest.mark.parametrize("arguments", [["-c", "import leadout"], ["-m", "leadout", "--help"]])
def test_import_and_help_load_no_backend(arguments):
    code = (
        "import sys, runpy\n"
        "try:\n"
        "    runpy.run_module('leadout', run_name='__main__') if sys.argv[1:] else __import__('leadout')\n"
        "except SystemExit: pass\n"
        f"print('loaded:', sorted({BACKENDS!r} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments[2:]], capture_output=True, text=True, timeout=60, check=True
    )
    assert "loaded: []" in done.stdout
