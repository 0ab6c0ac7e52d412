"""How long it takes until `/readyz` names the first cause of a fault, and until it is clear again after the repair."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial

from pyspark.sql import SparkSession

from headrace.laboratory.bench.faults.broker import broker
from headrace.laboratory.bench.faults.drivers import drivers
from headrace.laboratory.bench.faults.executors import executors
from headrace.laboratory.bench.faults.fault import Fault, problems
from headrace.laboratory.bench.faults.query import query
from headrace.laboratory.bench.figures import Figure
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.rig import wait_for

Site = Callable[[SparkSession, Say], AbstractContextManager[tuple[str, list[Fault]]]]
"""A site that is well: the HTTP address of its gateway, and the faults that it can have."""

TARGET_S = 10.0
_DEADLINE_S = 120.0
_STARTS_WITHIN_S = 300.0
_SITES: tuple[Site, ...] = (query, broker, drivers, executors)


def readyz_names_cause(spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """The longest time until a fault is named at `/readyz`, and until it is clear after the repair, of sixteen faults.

    A quick run has the first fault only. What is remembered for a minute after its end does not count as not clear.
    """
    named, cleared = list[float](), list[float]()
    for site in _SITES[:1] if quick else _SITES:
        with site(spark, say) as (http, faults):
            for fault in faults[:1] if quick else faults:
                names_s, clears_s = _measured(http, fault)
                named.append(names_s)
                if not fault.is_remembered:
                    cleared.append(clears_s)
                say(f"  {fault.name}: named after {names_s:.1f} s, clear after {clears_s:.1f} s")
                yield Figure(f"names_{fault.name}_s", names_s, "s")
                yield Figure(f"clears_{fault.name}_s", clears_s, "s")
    yield Figure("faults_named", len(named), "faults")
    for name, worst in (("readyz_names_cause_s", max(named)), ("readyz_clears_s", max(cleared))):
        yield Figure(name, worst, "s", None, f"<= {TARGET_S:.0f}", worst <= TARGET_S)


def _measured(http: str, fault: Fault) -> tuple[float, float]:
    """Injects a fault and repairs it; returns the seconds until it was named, and from the repair until all was well."""
    is_well = partial(_is_well, http)
    wait_for(f"all to be well before {fault.name}", is_well, _DEADLINE_S)
    begun = time.monotonic()
    try:
        fault.inject()
        if fault.begins is not None:
            wait_for(f"{fault.name} to begin", fault.begins, _STARTS_WITHIN_S)
            begun = time.monotonic()
        wait_for(f"{fault.name} to be named", lambda: fault.is_in(problems(http) or []), _DEADLINE_S)
        named = time.monotonic() - begun
    finally:
        fault.repair()
    begun = time.monotonic()
    wait_for(f"{fault.name} to be clear", is_well, _DEADLINE_S)
    return named, time.monotonic() - begun


def _is_well(http: str) -> bool:
    return problems(http) == []
