"""`headrace bench sdks`: single messages from plain author's code in each language, into a gateway whose far end reads them."""

import os
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from headrace.contract.languages import LANGUAGES
from headrace.laboratory.bench.figures import Figure, Progress, itself, machine, measured
from headrace.laboratory.bench.queries import inprocess_rate, session
from headrace.laboratory.bench.sdks.measure import Measured, measure
from headrace.laboratory.bench.sdks.programs import PYTHON, build
from headrace.laboratory.bench.sdks.steady import steady
from headrace.laboratory.bench.sources import MESSAGE_BYTES

CORE = "core_baseline"
PARTS = (*LANGUAGES, CORE)
RATE = 1_000
_SECONDS = 10
_ROUNDS = 5
_MICRO_BATCH = 500_000
"""The messages in a micro-batch of the baseline, about as many as `headrace bench core` has in one."""
_MESSAGES = {"python": 4_000_000, "go": 16_000_000, "typescript": 6_000_000, "java": 12_000_000, "rust": 16_000_000}
_MESSAGES_IN_BATCHES = 32_000_000
_QUICK = 8
_TIMES_PYTHON = {"go": 3.0, "java": 3.0, "rust": 3.0, "typescript": 1.5}
_OF_CORE = 0.25
_LATENCY_S = 15.0
"""About how long the latency of a language takes, in seconds, once."""
_FIRST_ROUND_S = 240.0
"""For how long programs begin their first run even if the benchmark has no time left, in seconds."""
_READS_EVERY_S = 0.05
"""As often as Spark begins a small micro-batch, so that messages cause the gateway's work, and not many reads."""
_SATURATED_CORES = 0.9


def run(parts: Sequence[str], quick: bool, say: Progress, *, minutes: float | None = None) -> tuple[list[Figure], dict[str, Any]]:
    """Measures languages, in turns. Returns their figures and the conditions.

    Args:
        parts: Languages, and perhaps `core_baseline`.
        quick: Whether to only check that everything works.
        say: Called with lines of progress.
        minutes: Instead of the speed, measures the memory at a steady rate for this long.

    Raises:
        ProgramsMissing: There are no programs to measure.
    """
    wanted = [name for name in PARTS if name in parts and name != CORE]
    commands, left_out = build([name for name in wanted if name != "python"], say)
    if "python" in wanted:
        commands = {"python": list(PYTHON), **commands}
    conditions = {
        "message_bytes": MESSAGE_BYTES,
        "quick": quick,
        "left_out": left_out,
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "processes": "connector, gateway and the far end share all cores",
    }
    if minutes is not None:
        return measured("memory", lambda: steady(commands, minutes * 60, say), say), machine() | conditions | {"minutes": minutes}
    figures = measured("speed", lambda: _speeds(commands, quick, say, with_core=CORE in parts), say)
    figures += measured("latency", lambda: _latencies(commands, quick, say), say)
    return figures, machine() | conditions | {"latency": f"{RATE} messages/s"}


def _speeds(commands: dict[str, list[str]], quick: bool, say: Progress, *, with_core: bool) -> Iterator[Figure]:
    """Runs the programs in turns, as fast as the gateway accepts their messages. Yields a program's figures after each run."""
    found: dict[str, list[Measured]] = defaultdict(list)
    baselines: list[float] = []
    spark = session(quick_start=quick) if with_core else None
    took_s, first_ends = 0.0, time.monotonic() + _FIRST_ROUND_S
    for number in range(1 if quick else _ROUNDS):
        # What remains is for the latencies.
        if number and not say.begins(f"round {number + 1}", takes_s=took_s + (len(commands) + 1) * _LATENCY_S):
            break
        begun = time.monotonic()
        say(f"round {number + 1} ...")
        for name, language, count, arguments in _runs(list(commands), quick):
            # The first round is due however long the builds have taken, but may take too long itself.
            if time.monotonic() > first_ends and not number and not say.begins(name):
                continue
            one = measure(language, commands[language], count, *arguments, every_s=_READS_EVERY_S)
            found[name].append(one)
            say(
                f"  {name}: {one.rate:,.0f} messages/s, {one.cpu_us:.2f} us of CPU each; "
                f"the gateway used {one.gateway_cores:.2f} cores, the far end {one.far_end_cores:.2f}"
            )
            yield from _figures(name, found[name], found.get("python_messages"))
            yield from itself(name, [one.rate for one in found[name]], "messages/s")
        if spark is not None:
            baselines.append(inprocess_rate(spark, _MICRO_BATCH, 2 if quick else 5))
            say(f"  {CORE}: {baselines[-1]:,.0f} messages/s")
            if python := found.get("python_messages"):
                yield _of_core(statistics.median(one.rate for one in python), statistics.median(baselines))
        took_s = time.monotonic() - begun


def _runs(languages: Sequence[str], quick: bool) -> Iterator[tuple[str, str, int, list[str]]]:
    """Yields the name, language, number of messages and arguments of each run of a round."""
    share = _QUICK if quick else 1
    # Single messages of Python come first, since all others are compared with them.
    for language in languages:
        yield f"{language}_messages", language, _MESSAGES[language] // share, []
    if "python" in languages:
        yield "python_batches", "python", _MESSAGES_IN_BATCHES // share, ["--batches"]


def _of_core(rate: float, core: float) -> Figure:
    """Returns the rate of single messages in Python, against the same query without a connector and a gateway."""
    target, met = f">= {_OF_CORE:g} of the core baseline", rate >= _OF_CORE * core
    return Figure("python_messages_of_core", rate, "messages/s", core, target, met)


def _figures(name: str, several: Sequence[Measured], python: Sequence[Measured] | None) -> Iterator[Figure]:
    """Yields the figures of all runs of one kind, against the figures of single messages in Python."""
    language = name.partition("_")[0]
    rate, cpu, busy = (
        statistics.median(getattr(one, attribute) for one in several) for attribute in ("rate", "cpu_us", "gateway_cores")
    )
    of_python = statistics.median(one.rate for one in python) if python and python is not several else None
    cpu_of_python = statistics.median(one.cpu_us for one in python) if python and python is not several else None
    target, met, times = "", None, _TIMES_PYTHON.get(language)
    if times is not None and of_python is not None:
        target = f">= {times:g} of python_messages, or the gateway saturated"
        met = rate >= times * of_python or busy >= _SATURATED_CORES
    yield Figure(name, rate, "messages/s", of_python, target, met)
    yield Figure(f"{name}_cpu", cpu, "us", cpu_of_python)
    yield Figure(f"{name}_gateway", busy, "cores")
    if name.endswith("_messages"):
        yield Figure(f"{language}_rss", max(one.peak_mb for one in several), "MB")


def _latencies(commands: dict[str, list[str]], quick: bool, say: Progress) -> Iterator[Figure]:
    """Measures the time to the acknowledgement at a modest rate, as the program sees it, in turns."""
    found: dict[str, list[float]] = defaultdict(list)
    for number in range(1 if quick else 3):
        if number and not say.begins(f"round {number + 1} of the latency", takes_s=len(commands) * _LATENCY_S):
            break
        for language, command in commands.items():
            one = measure(language, command, RATE * (2 if quick else _SECONDS), str(RATE))
            found[language].append(one.result["ack_p50_ms"])
            say(f"  {language}: acknowledged after {found[language][-1]:.1f} ms (p50) at {RATE:,} messages/s")
            python = statistics.median(found["python"]) if "python" in found and language != "python" else None
            yield Figure(f"{language}_ack_p50", statistics.median(found[language]), "ms", python)
