"""How long it takes until `/readyz` names the first cause of a fault, and until it is clear again after the repair."""

import time
from collections.abc import Callable, Collection, Iterator
from functools import partial

from pyspark.sql import SparkSession

from headrace.laboratory.bench.faults.broker import BROKER
from headrace.laboratory.bench.faults.deployed import DEPLOYED
from headrace.laboratory.bench.faults.drivers import DRIVERS, WITHOUT_SINK
from headrace.laboratory.bench.faults.executors import EXECUTORS
from headrace.laboratory.bench.faults.fault import Fault, Site, problems
from headrace.laboratory.bench.faults.files import FILES
from headrace.laboratory.bench.faults.query import QUERY
from headrace.laboratory.bench.faults.receiver import RECEIVER
from headrace.laboratory.bench.figures import Figure
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.rig import wait_for

SITES: tuple[Site, ...] = (FILES, QUERY, RECEIVER, BROKER, DRIVERS, WITHOUT_SINK, EXECUTORS, DEPLOYED)
TARGET_S = 10.0
_DEADLINE_S = 120.0
_STARTS_WITHIN_S = 300.0
_QUICK = ("paused_pipeline",)


def readyz_names_cause(
    spark: SparkSession, say: Say, quick: bool, *, only: Collection[str] = (), left_out: dict[str, str]
) -> Iterator[Figure]:
    """The longest time until a fault is named at `/readyz`, and until it is clear after the repair.

    A problem that health remembers for a minute after its end counts as clear. A fault that is not named within two minutes has
    these as its figure. After one that is not clear within two minutes, the other faults of its site are left out.

    Args:
        spark: The session of queries.
        say: Takes the progress.
        quick: Whether one fault is enough, unless some are named.
        only: The names of the faults; all if it is empty.
        left_out: Takes why a fault was left out, by its name.
    """
    wanted = only or (_QUICK if quick else [name for site in SITES for name in site.faults])
    named, cleared, not_named = list[float](), list[float](), 0
    for site in SITES:
        for fault, found in _of_site(site, frozenset(wanted), spark, say, left_out):
            names_s, clears_s = found
            named.append(_DEADLINE_S if names_s is None else names_s)
            not_named += names_s is None
            if clears_s is not None and not fault.is_remembered:
                cleared.append(clears_s)
            yield Figure(f"names_{fault.name}_s", named[-1], "s", None, f"<= {TARGET_S:.0f}", named[-1] <= TARGET_S)
            if clears_s is not None:
                yield Figure(f"clears_{fault.name}_s", clears_s, "s")
    count = len(named) - not_named
    yield Figure("faults_named", count, "faults", None, f"{len(wanted)}", count == len(wanted))
    for name, times in (("readyz_names_cause_s", named), ("readyz_clears_s", cleared)):
        if times:
            yield Figure(name, max(times), "s", None, f"<= {TARGET_S:.0f}", max(times) <= TARGET_S)


def _of_site(
    site: Site, wanted: frozenset[str], spark: SparkSession, say: Say, left_out: dict[str, str]
) -> Iterator[tuple[Fault, tuple[float | None, float | None]]]:
    """Yields the faults of a site that are wanted, and what was measured of each."""
    lacks = site.lacks()
    for name in site.faults:
        if name in wanted and name in lacks:
            left_out[name] = f"this machine lacks {lacks[name]}"
            say(f"  {name}: left out, since {left_out[name]}")
    names = frozenset(name for name in site.faults if name in wanted and name not in lacks)
    if not names:
        return
    missing = set(names)
    try:
        with site.run(spark, names) as (url, faults):
            for fault in faults:
                wait_for(f"all to be well before {fault.name}", partial(_is_well, url), _DEADLINE_S)
                say(f"  {fault.name} ...")
                found = _measured(url, fault, say)
                missing.discard(fault.name)
                yield fault, found
                if found[1] is None:
                    raise TimeoutError(f"{fault.name} was not clear after {_DEADLINE_S:.0f} s: {problems(url)}")
    except TimeoutError as error:
        say(f"  {error}")
        for name in sorted(missing):
            left_out[name] = f"the site was not well: {error}"
            say(f"  {name}: left out, since {left_out[name]}")


def _measured(url: str, fault: Fault, say: Say) -> tuple[float | None, float | None]:
    """Injects a fault and repairs it.

    Returns:
        The seconds until it was named, and from the repair until all was well. None if that took longer than the deadline.
    """
    begun = time.monotonic()
    try:
        fault.inject()
        if fault.begins is not None:
            wait_for(f"{fault.name} to begin", fault.begins, _STARTS_WITHIN_S)
            begun = time.monotonic()
        named = _seconds(f"{fault.name} to be named", begun, lambda: fault.is_in(problems(url) or []))
        if named is None:
            say(f"  {fault.name}: not named, but {problems(url)}")
    finally:
        fault.repair()
    cleared = _seconds(f"{fault.name} to be clear", time.monotonic(), partial(_is_well, url))
    say(f"  {fault.name}: named after {_text(named)}, clear after {_text(cleared)}")
    return named, cleared


def _seconds(what: str, begun: float, condition: Callable[[], bool]) -> float | None:
    """Waits for a condition; returns how long after the beginning it was true, None if it was not within the deadline."""
    try:
        wait_for(what, condition, _DEADLINE_S)
    except TimeoutError:
        return None
    return time.monotonic() - begun


def _text(seconds: float | None) -> str:
    return f"more than {_DEADLINE_S:.0f} s" if seconds is None else f"{seconds:.1f} s"


def _is_well(url: str) -> bool:
    return problems(url) == []
