"""How much processor time a session spends, with everything that it starts.

Linux counts the time of a control group, also of processes that were killed, or whose parent was. Where a session may not make
one, a child counts while it runs and once it was waited for, and a grandchild whose parent was killed does not.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_NAME = "headrace-tests-"


class Group:
    """A control group for this process and all that it starts from now on.

    Args:
        parent: The folder of the group that it is to be part of, as `own_group` finds it.

    Raises:
        OSError: This process may not make one there, or may not move to it.
    """

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        for left in parent.glob(f"{_NAME}*"):
            # One with processes stays.
            with suppress(OSError):
                left.rmdir()
        self._folder = parent / f"{_NAME}{os.getpid()}"
        self._folder.mkdir()
        try:
            self.processor_s()
            _move(self._folder)
        except OSError:
            self._folder.rmdir()
            raise

    def processor_s(self) -> float:
        """The time that its processes have spent, in seconds, also after they have ended."""
        stat = dict(line.split() for line in (self._folder / "cpu.stat").read_text().splitlines())
        return int(stat["usage_usec"]) / 1_000_000

    def leave(self) -> None:
        """Moves this process back, and removes the group, unless a process is left in it."""
        with suppress(OSError):
            _move(self._parent)
            self._folder.rmdir()


def own_group() -> Path | None:
    """The folder of this process's control group of version 2; None if there is none."""
    with suppress(OSError, StopIteration):
        mounts = (line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines())
        mount = next(fields[4] for fields in mounts if fields[fields.index("-") + 1] == "cgroup2")
        groups = Path("/proc/self/cgroup").read_text().splitlines()
        path = next(line.removeprefix("0::/") for line in groups if line.startswith("0::/"))
        return Path(mount, path)
    return None


def of_children_s() -> float:
    """The time of this process, of children that have ended, and of children that still run, such as Spark's JVM.

    Where there is no `/proc`, the time of a child counts once it has ended.
    """
    times = os.times()
    running = sum(map(_spent_by, _children()))
    return times.user + times.system + times.children_user + times.children_system + running


def _move(folder: Path) -> None:
    (folder / "cgroup.procs").write_text(str(os.getpid()))


def _children() -> Iterator[str]:
    with suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            with suppress(OSError), open(f"/proc/self/task/{thread}/children") as children:  # The thread may just have ended.
                yield from children.read().split()


def _spent_by(process: str) -> float:
    """The processor seconds of a process, and of processes that it has waited for; 0 if it has just ended."""
    try:
        fields = Path("/proc", process, "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
