"""How often the kernel has killed processes for lack of memory, in this cgroup and on this machine."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MACHINE = Path("/proc/vmstat")
_OWN = Path("/proc/self/cgroup")
_CGROUPS = Path("/sys/fs/cgroup")
_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class MemoryKills:
    """Counts since the cgroup, and the machine, began. One that the system does not tell stays 0."""

    of_cgroup: int = 0
    of_machine: int = 0

    def since(self, earlier: "MemoryKills") -> str:
        """Returns for people whether the kernel has killed a process since an earlier count; empty if it has not."""
        if self.of_cgroup > earlier.of_cgroup:
            return "out of memory: the kernel has killed a process of this cgroup since it started; raise its limit of memory"
        if self.of_machine > earlier.of_machine:
            return "out of memory: the kernel has killed a process of this machine since it started; it needs more memory"
        return ""


def memory_kills() -> MemoryKills:
    """Returns the counts as they are now."""
    return MemoryKills(max((_count(file) for file in _of_cgroup()), default=0), _count(_MACHINE))


def _of_cgroup() -> Iterator[Path]:
    """Yields the files that count the kills of this cgroup, of version 2 and 1. A container sees its own as the root."""
    for line in _read(_OWN).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):
            root, name = (_CGROUPS, "memory.events") if not controllers else (_CGROUPS / "memory", "memory.oom_control")
            own = root / path.lstrip("/") / name
            yield own if own.exists() else root / name


def _count(file: Path) -> int:
    found = _COUNT.search(_read(file))
    return 0 if found is None else int(found.group(1))


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
