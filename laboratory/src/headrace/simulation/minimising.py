"""Makes a failing schedule smaller while it still fails in the same way: fewer faults, systems and messages, plain conditions."""

from collections.abc import Iterator
from dataclasses import fields, replace

from headrace.simulation.record import Violation
from headrace.simulation.schedule import Conditions, QueryPlan, Schedule
from headrace.simulation.simulating import simulate

MAX_RUNS = 100
"""How many schedules to try at most."""
LIVENESS_S = 40.0
"""What is stuck for this many virtual seconds fails: most candidates are."""


def minimised(schedule: Schedule, violation: Violation, max_runs: int = MAX_RUNS) -> Schedule:
    """Returns a smaller schedule with a violation of the same kind."""
    runs, index, found = 0, 0, False
    while runs < max_runs:
        candidate = next((each for place, each in enumerate(smaller(schedule)) if place == index), None)
        if candidate is None:
            if not found:
                break
            index, found = 0, False
            continue
        runs += 1
        if violation.kind in simulate(candidate, liveness_s=LIVENESS_S).kinds:
            # What was tried before is not tried again now: the next candidate of the smaller schedule has the same place.
            schedule, found = candidate, True
        else:
            index += 1
    return schedule


def smaller(schedule: Schedule) -> Iterator[Schedule]:
    """Yields smaller schedules, the smallest first."""
    plain = Conditions(
        produce_s=schedule.conditions.produce_s, fault_s=schedule.conditions.fault_s, messages=schedule.conditions.messages
    )
    if schedule.conditions != plain:
        yield replace(schedule, conditions=plain)
    yield from _with_fewer_parts(schedule)
    faults = schedule.faults
    half = len(faults) // 2
    if half:
        yield replace(schedule, faults=())
    if half > 1:
        yield replace(schedule, faults=faults[:half])
        yield replace(schedule, faults=faults[half:])
    for index in range(len(faults)):
        yield replace(schedule, faults=(*faults[:index], *faults[index + 1 :]))
    for field in fields(Conditions):
        value = getattr(plain, field.name)
        if getattr(schedule.conditions, field.name) != value:
            yield replace(schedule, conditions=replace(schedule.conditions, **{field.name: value}))
    if schedule.conditions.messages > 1:
        yield replace(schedule, conditions=replace(schedule.conditions, messages=schedule.conditions.messages // 2))


def _with_fewer_parts(schedule: Schedule) -> Iterator[Schedule]:
    """Yields schedules without a query, a source, a sink, a partition or an instance."""
    for query in schedule.queries[1:]:
        yield _without(schedule, query.name)
    if any(query.tables for query in schedule.queries):
        yield replace(schedule, queries=tuple(replace(query, tables=()) for query in schedule.queries))
    for source in schedule.sources:
        if sum(plan.is_log for plan in schedule.sources) > 1 or not source.is_log:
            yield _without(schedule, source.name)
    for sink in schedule.sinks[1:]:
        yield _without(schedule, sink.name)
    for source in schedule.sources:
        if source.partitions > 1:
            fewer = tuple(replace(plan, partitions=1) if plan is source else plan for plan in schedule.sources)
            yield replace(schedule, sources=fewer)
    for sink in schedule.sinks:
        if sink.instances > 1:
            fewer_instances = tuple(replace(plan, instances=1) if plan is sink else plan for plan in schedule.sinks)
            yield _without_strangers(replace(schedule, sinks=fewer_instances))


def _without(schedule: Schedule, name: str) -> Schedule:
    """Returns a schedule without a query, a source or a sink."""

    def kept(query: QueryPlan) -> QueryPlan:
        sources, sinks, tables = (
            tuple(each for each in names if each != name) for names in (query.sources, query.sinks, query.tables)
        )
        return QueryPlan(query.name, sources, sinks, tables)

    return _without_strangers(
        replace(
            schedule,
            sources=tuple(plan for plan in schedule.sources if plan.name != name),
            sinks=tuple(plan for plan in schedule.sinks if plan.name != name),
            queries=tuple(kept(query) for query in schedule.queries if query.name != name),
        )
    )


def _without_strangers(schedule: Schedule) -> Schedule:
    """Returns a schedule without the faults of roles that nobody plays."""
    roles = {"", *schedule.roles()}
    faults = tuple(fault for fault in schedule.faults if {fault.who, fault.second} <= roles)
    return replace(schedule, faults=faults)
