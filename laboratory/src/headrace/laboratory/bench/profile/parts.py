"""Which part of the way of a message a stack belongs to."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from headrace.laboratory.bench.profile.jvm import Interval
from headrace.laboratory.bench.profile.sampler import NATIVE

PROFILER = "profiler"
_GATEWAY = (
    ("headrace.gateway.services.source", "gateway in"),
    ("headrace.gateway.services.sessions", "gateway in"),
    ("headrace.gateway.services.received", "gateway in"),
    ("headrace.gateway.core.intake", "gateway in"),
    ("headrace.gateway.core.streams", "gateway in"),
    ("headrace.gateway.core.batches.reading", "fetch"),
    ("headrace.gateway.core.batches.decisions", "sink"),
    ("headrace.gateway.core.batches.delivering", "sink"),
    ("headrace.gateway.core.batches", "plan"),
    ("headrace.gateway.services.engine:EngineService.Fetch", "fetch"),
    ("headrace.gateway.services.engine", "plan"),
    ("headrace.gateway.services.commits", "sink"),
    ("headrace.gateway.services.delivery", "sink"),
    ("headrace.gateway.services.sink", "sink"),
    ("headrace.gateway.core.sinks", "sink"),
    ("headrace.gateway.", "gateway, other"),
)
_WORKER = (
    ("headrace.engine.source.planner", "plan"),
    ("headrace.engine.source.ranges", "plan"),
    ("headrace.engine.checkpoint", "plan"),
    ("headrace.engine.codec", "decode"),
    ("headrace.engine.source", "fetch"),
    ("headrace.engine.wire", "fetch"),
    ("headrace.engine.sink", "sink"),
    ("headrace.engine.applications", "stages"),
    ("headrace.pipelines", "stages"),
    ("headrace.laboratory", "functions"),
)
_CONNECTOR = (("headrace.laboratory", "source"), ("headrace.engine.codec", "source"), ("headrace.sdk", "SDK"))
_SINK = (("headrace", "sink"),)
_DRIVER = (("headrace.engine", "driver"), ("headrace.laboratory", "benchmark"))
_RULES = {"gateway": _GATEWAY, "worker": _WORKER, "connector": _CONNECTOR, "sink": _SINK, "driver": _DRIVER}
_OTHERS = {
    "gateway": "gateway, gRPC and loop",
    "worker": "Spark's Python",
    "connector": "SDK, gRPC and loop",
    "sink": "sink",
    "driver": "driver",
}
_JVM = (
    ("stream execut", "Spark's planning"),
    ("Executor task", "Spark's tasks"),
    ("C1 Compiler", "JVM's compilers"),
    ("C2 Compiler", "JVM's compilers"),
    ("G1 ", "JVM's garbage"),
    ("GC ", "JVM's garbage"),
    ("VM Thread", "JVM's garbage"),
)
PARTS = (
    "source",
    "SDK",
    "SDK, gRPC and loop",
    "gateway in",
    "gateway, gRPC and loop",
    "gateway, other",
    "plan",
    "fetch",
    "decode",
    "stages",
    "functions",
    "sink",
    "Spark's Python",
    "Spark's planning",
    "Spark's tasks",
    "Spark's other threads",
    "JVM's compilers",
    "JVM's garbage",
    "driver",
    "benchmark",
    PROFILER,
)
"""All parts, in the order of a message's way."""


def part_of(role: str, stack: str) -> str:
    """Returns the part of a stack: the innermost function that belongs to one decides.

    Args:
        role: The role of the process.
        stack: Its functions, from the outermost one, as `module:name`, separated by semicolons; of a JVM, the thread's name.
    """
    if role == "jvm":
        return next((part for begin, part in _JVM if stack.startswith(begin)), "Spark's other threads")
    if stack == PROFILER or "headrace.laboratory.bench.profile" in stack.rpartition(";")[2]:
        return PROFILER
    for name in () if stack.startswith(NATIVE) else reversed(stack.split(";")):
        if "bench.profile." in name:
            continue
        for begin, part in _RULES[role]:
            if name.startswith(begin):
                return part
    return _OTHERS[role]


def seconds_by_part(intervals: Iterable[Interval]) -> Mapping[str, float]:
    """Returns the processor time of each part that used any, in the order of `PARTS`."""
    found = defaultdict[str, float](float)
    for interval in intervals:
        for stack, used in interval.stacks.items():
            found[part_of(interval.role, stack)] += used
    return {part: found[part] for part in PARTS if found[part] > 0}


def seconds_by_stack(intervals: Iterable[Interval]) -> Mapping[tuple[str, ...], float]:
    """Returns the processor time of each stack, which begins with its part and what its process is."""
    found = defaultdict[tuple[str, ...], float](float)
    for interval in intervals:
        for stack, used in interval.stacks.items():
            names = [name for name in stack.split(";") if "bench.profile." not in name and not name.startswith("runpy:")]
            found[(part_of(interval.role, stack), interval.role, *names)] += used
    return found
