"""How often the kernel has killed processes for lack of memory, in this cgroup and on this machine."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_MACHINE = Path("/proc/vmstat")
_OWN = Path("/proc/self/cgroup")
_CGROUPS = Path("/sys/fs/cgroup")
_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)

RENEWED_S = 60.0
"""How often older kills are forgotten, in seconds: a kill counts for one to two of these times."""


@dataclass(frozen=True, slots=True)
class MemoryKills:
    """Counts since the cgroup, and the machine, began; None for one that the system does not tell."""

    of_cgroup: int | None = None
    of_machine: int | None = None


class RecentKills:
    """Whether the kernel has killed a process lately: in weeks, it kills many that have nothing to do with this one.

    Args:
        count: Returns the counts as they are now.
    """

    def __init__(self, count: Callable[[], MemoryKills]) -> None:
        self._count = count
        self._earlier = self._later = MemoryKills()
        self._counted_at = 0.0

    def begin(self, now: float) -> None:
        """Counts from `now` on, in seconds on a monotonic clock."""
        self._earlier = self._later = self._count()
        self._counted_at = now

    def renew(self, now: float) -> None:
        """Forgets the kills of some time ago; is called again and again while the process runs."""
        if now - self._counted_at >= RENEWED_S:
            self._earlier, self._later, self._counted_at = self._later, self._count(), now

    def reason(self, *, of_machine: bool) -> str:
        """Returns for people whether the kernel has killed a process lately; empty if it has not.

        The cgroup counts its own processes, whatever lacked memory.

        Args:
            of_machine: Whether a kill elsewhere on the machine is a reason, even if the cgroup's count is known: this process may
                have begun another cgroup.
        """
        now = self._count()
        if _is_more(now.of_cgroup, self._earlier.of_cgroup):
            return "out of memory: the kernel has just killed a process of this cgroup; raise its limit of memory"
        if (of_machine or now.of_cgroup is None) and _is_more(now.of_machine, self._earlier.of_machine):
            return "out of memory: the kernel has just killed a process of this machine; it needs more memory"
        return ""


def memory_kills() -> MemoryKills:
    """Returns the counts as they are now."""
    of_cgroup = [found for file in _of_cgroup() if (found := _count(file)) is not None]
    return MemoryKills(max(of_cgroup, default=None), _count(_MACHINE))


def _is_more(now: int | None, earlier: int | None) -> bool:
    return now is not None and earlier is not None and now > earlier


def _of_cgroup() -> Iterator[Path]:
    """Yields the files that count the kills of this cgroup, of version 2 and 1. A container sees its own as the root."""
    for line in _read(_OWN).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):
            root, name = (_CGROUPS, "memory.events") if not controllers else (_CGROUPS / "memory", "memory.oom_control")
            own = root / path.lstrip("/") / name
            yield own if own.exists() else root / name


def _count(file: Path) -> int | None:
    found = _COUNT.search(_read(file))
    return None if found is None else int(found.group(1))


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
