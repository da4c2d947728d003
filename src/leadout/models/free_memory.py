"""How much memory this process may still take: the system's, its control group's and its own limit."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUP = Path("/proc/self/cgroup")
_V2 = ("memory.max", "memory.current", ("inactive_file", "active_file"))
_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file"))


def free_bytes() -> int:
    """Bytes that can be taken without swapping: what is free or holds only copies of files."""
    limits = [
        int(psutil.virtual_memory().available),
        group_free(_read(_OWN_GROUP), _GROUPS),
        _address_space_free(),
    ]
    return max(0, min(limit for limit in limits if limit is not None))


def group_free(own_group: str, groups: Path) -> int | None:
    """What the control group of a process, and those above it, leave free; None: no limit is set.

    Parameters
    ----------
    own_group : str
        The text of /proc/self/cgroup.
    groups : Path
        Where control groups are mounted, of version 2 or 1. In a container the process's own group may be
        mounted there under no name.
    """
    rooms = [
        room
        for root, inside, names in _places(own_group, groups)
        for folder in _upwards(root, inside)
        if (room := _room_in(folder, *names)) is not None
    ]
    return min(rooms, default=None)


def _places(own_group: str, groups: Path) -> Iterator[tuple[Path, str, tuple[str, str, tuple[str, str]]]]:
    for line in own_group.splitlines():
        _, controllers, inside = (*line.split(":", 2), "", "", "")[:3]
        if not controllers:
            yield groups, inside, _V2
        elif "memory" in controllers.split(","):
            yield groups / "memory", inside, _V1


def _upwards(root: Path, inside: str) -> Iterator[Path]:
    names = [name for name in inside.split("/") if name not in ("", "..")]
    for n in range(len(names), -1, -1):
        yield root.joinpath(*names[:n])


def _room_in(folder: Path, limit_name: str, used_name: str, of_files: tuple[str, str]) -> int | None:
    limit, used = _read(folder / limit_name).strip(), _read(folder / used_name).strip()
    if not limit.isdecimal() or not used.isdecimal():  # "max", or no such file
        return None
    stat = dict(line.split(" ", 1) for line in _read(folder / "memory.stat").splitlines() if " " in line)
    reclaimable = sum(int(stat[name]) for name in of_files if stat.get(name, "").isdecimal())
    return int(limit) - int(used) + reclaimable


def _address_space_free() -> int | None:
    if sys.platform == "win32":
        return None
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit - int(psutil.Process().memory_info().vms)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
