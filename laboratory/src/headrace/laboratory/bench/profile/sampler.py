"""Samples which functions use the processor in this process, by the clocks of its threads.

Whenever the process has used a few milliseconds, its main thread is interrupted between two steps of Python: all that it has used
since the last time belongs to its stack. Native code is thus counted for the function that calls it, or for the next one. A
thread looks at the stacks of all others. What libraries do in threads of their own is counted by the names of these threads.
"""

import atexit
import json
import os
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

FOLDER = "HEADRACE_PROFILE_FOLDER"
"""The environment variable for where each process writes its samples."""
TICK_S = 0.005
LOOKS_EVERY_S = 0.01
_MIN_USED_S = 0.002
"""How much the process has used when it is worth a look: a look at a process that waits would be most of what it uses."""
WRITES_EVERY_S = 0.25
_MAX_DEPTH = 80
NATIVE = "native"
"""The root of the stacks of threads that Python does not know."""
_PER_THREAD = 6
"""The kind of Linux's clock of the processor time of one thread."""
_TASKS = Path("/proc/self/task")


class Sampler:
    """Samples this process, and appends lines of JSON to a file: when, and the seconds of each stack since the last line.

    Args:
        file: The file.
        role: What this process is.
    """

    def __init__(self, file: Path, role: str) -> None:
        self._file = file
        self._role = role
        self._names = dict[CodeType, str]()
        self._used_by_all = 0.0
        self._used = dict[int, float]()
        self._stacks = defaultdict[str, float](float)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-profile", daemon=True)

    def start(self) -> None:
        """Begins to sample. Call it in the main thread."""
        self._used[os.getpid()] = _clock(os.getpid())
        signal.signal(signal.SIGPROF, self._tick)
        signal.siginterrupt(signal.SIGPROF, False)
        signal.setitimer(signal.ITIMER_PROF, TICK_S, TICK_S)
        self._thread.start()

    def stop(self) -> None:
        """Samples for the last time, and waits until that is written."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        self._stop.set()
        self._thread.join()

    def _tick(self, _: int, frame: FrameType | None) -> None:
        """Counts what the main thread has used since the last tick."""
        # After a fork, the main thread does not know its number, which is the number of the process.
        if (used := self._since(os.getpid(), _clock(os.getpid()))) > 0:
            self._stacks[self._stack(frame)] += used

    def _run(self) -> None:
        written = time.monotonic()
        while not self._stop.wait(LOOKS_EVERY_S):
            self._look()
            if time.monotonic() - written >= WRITES_EVERY_S:
                written = time.monotonic()
                self._write()
        self._look()
        self._write()

    def _look(self) -> None:
        used_by_all = time.process_time()
        if used_by_all - self._used_by_all < _MIN_USED_S:
            return
        self._used_by_all = used_by_all
        frames, own = sys._current_frames(), threading.get_ident()
        for thread in threading.enumerate():
            if thread is threading.main_thread() or thread.native_id is None:
                continue
            if (used := self._since(thread.native_id, _clock(thread.native_id))) > 0:
                self._stacks["profiler" if thread.ident == own else self._stack(frames.get(thread.ident or 0))] += used

    def _since(self, thread: int, used: float) -> float:
        """Returns the seconds that a thread has used since the last look."""
        before = self._used.get(thread, 0.0)
        self._used[thread] = max(used, before)
        return used - before

    def _stack(self, frame: FrameType | None) -> str:
        names = list[str]()
        while frame is not None and len(names) < _MAX_DEPTH:
            code = frame.f_code
            if (name := self._names.get(code)) is None:
                name = self._names[code] = f"{_module(frame)}:{code.co_qualname}"
            names.append(name)
            frame = frame.f_back
        return ";".join(reversed(names)) or NATIVE

    def _write(self) -> None:
        known = {thread.native_id for thread in threading.enumerate()} | {os.getpid()}
        for task in _TASKS.iterdir():
            number = int(task.name)
            if number not in known and (used := self._since(number, _clock(number))) > 0:
                self._stacks[f"{NATIVE};{_name(task)}"] += used
        stacks, self._stacks = self._stacks, defaultdict(float)
        line = {"at": time.time(), "role": self._role, "stacks": {name: round(used, 6) for name, used in stacks.items()}}
        with self._file.open("a") as file:
            file.write(json.dumps(line) + "\n")


def _clock(thread: int) -> float:
    """Returns the processor time of a thread of this process, in seconds; 0 if it has ended."""
    try:
        return time.clock_gettime((~thread << 3) | _PER_THREAD)
    except OSError:
        return 0.0


def _name(task: Path) -> str:
    try:
        return (task / "comm").read_text().strip()
    except OSError:
        return "ended"


def _module(frame: FrameType) -> str:
    name = str(frame.f_globals.get("__name__"))
    spec = frame.f_globals.get("__spec__")
    return str(spec.name) if name == "__main__" and spec is not None else name


def start(role: str) -> Sampler:
    """Starts to sample this process, in a file of the folder that the environment names."""
    sampler = Sampler(Path(os.environ[FOLDER]) / f"{os.getpid()}.jsonl", role)
    sampler.start()
    # Python gives the signal back to the system at its end, which would end the process by it.
    atexit.register(sampler.stop)
    return sampler


@contextmanager
def sampling(role: str) -> Iterator[None]:
    """Samples this process while the block runs."""
    sampler = start(role)
    try:
        yield
    finally:
        sampler.stop()
