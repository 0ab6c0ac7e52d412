"""Whether the memory of the programs grows at a steady rate, judged as `headrace soak` does."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from headrace.laboratory.bench.figures import Figure
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.rig import gateway
from headrace.laboratory.bench.sdks.far_end import arrivals
from headrace.laboratory.bench.sdks.measure import program, stream
from headrace.laboratory.soak.memory import memory_of
from headrace.laboratory.soak.series import Record
from headrace.laboratory.soak.slope import Verdict

RATE = 5_000
BOUND_MB_PER_HOUR = 8.0
_WARM_UP_SHARE = 1 / 3
_SAMPLES = 1200
_MIN_PAUSE_S = 0.25
_SAY_EVERY_S = 15.0


def steady(commands: Mapping[str, Sequence[str]], seconds: float, say: Say) -> Iterator[Figure]:
    """Runs all programs at once at a steady rate for some seconds, and yields the growth of each after a third of the time."""
    total, record, began = int(RATE * seconds), Record(), time.monotonic()
    with gateway() as running, ExitStack() as stack, ThreadPoolExecutor(len(commands)) as threads:
        address = running.address
        programs = {
            name: stack.enter_context(program([*command, str(total), str(RATE)], address)) for name, command in commands.items()
        }
        far_ends = [threads.submit(_drain, address, name, total) for name in commands]
        pids = {process.pid: name for name, process in programs.items()}
        over, said = threading.Event(), 0.0
        for far_end in far_ends:
            far_end.add_done_callback(lambda _: over.set())
        # The first program to end, or to fail, ends the measurement.
        while not over.wait(max(_MIN_PAUSE_S, seconds / _SAMPLES)):
            now = time.monotonic() - began
            memories = {pid: (name, memory) for pid, name in pids.items() if (memory := memory_of(pid)) is not None}
            record.note(now, memories)
            if now >= said:
                sizes = ", ".join(f"{name} {memory.own:.1f} MB" for name, memory in memories.values())
                say(f"  {now:.0f} of {seconds:.0f} s: {sizes}")
                said = now + _SAY_EVERY_S
        for far_end in far_ends:
            far_end.result()
        for process in programs.values():
            process.finished()
    for judged in record.judged(seconds * _WARM_UP_SHARE, BOUND_MB_PER_HOUR):
        name, slope = judged.series.name, judged.slope
        if name not in commands:
            continue
        if slope is None:
            say(f"  {name}: {judged.verdict}")
            continue
        say(f"  {name}: {slope.per_hour:+.1f} MB per hour ({slope.low:+.1f} to {slope.high:+.1f}): {judged.verdict}")
        target = f"not significantly above {BOUND_MB_PER_HOUR:g}"
        yield Figure(f"{name}_growth", slope.per_hour, "MB/hour", None, target, judged.verdict is not Verdict.GROWS)
        yield Figure(f"{name}_rss", max(judged.series.resident), "MB")


def _drain(address: str, language: str, total: int) -> None:
    for _ in arrivals(address, stream(language), total):
        pass
