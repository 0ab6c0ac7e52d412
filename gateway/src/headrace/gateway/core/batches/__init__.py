"""Micro-batches: planned, read, delivered to sinks, committed."""

from headrace.gateway.core.batches.available_now import exhausted, has_waited_for_ends, streams_away, without_connector
from headrace.gateway.core.batches.bootstrapping import MAX_NAMED, bootstrapped, missing, tables_away
from headrace.gateway.core.batches.checkpoints import (
    adopt,
    attach,
    check_follows,
    check_is_last_plan,
    check_not_late,
    check_reads,
    commit,
    declare,
    forget,
    identify,
)
from headrace.gateway.core.batches.decisions import record_commits
from headrace.gateway.core.batches.delivering import attach_sink, begin_transaction, check_newer, instance_for, vote
from headrace.gateway.core.batches.following import follow
from headrace.gateway.core.batches.leases import detach, end_leases, forgettable, renew
from headrace.gateway.core.batches.planning import PlannedRange, all_ended, newly_opened, plan
from headrace.gateway.core.batches.reading import ReadRange, describe_loss, read
from headrace.gateway.core.batches.runs import wait_until_current
from headrace.gateway.core.batches.stages import note_delivered, note_staged, note_visible

__all__ = [
    "MAX_NAMED",
    "PlannedRange",
    "ReadRange",
    "adopt",
    "all_ended",
    "attach",
    "attach_sink",
    "begin_transaction",
    "bootstrapped",
    "check_follows",
    "check_is_last_plan",
    "check_newer",
    "check_not_late",
    "check_reads",
    "commit",
    "declare",
    "describe_loss",
    "detach",
    "end_leases",
    "exhausted",
    "follow",
    "forget",
    "forgettable",
    "has_waited_for_ends",
    "identify",
    "instance_for",
    "missing",
    "newly_opened",
    "note_delivered",
    "note_staged",
    "note_visible",
    "plan",
    "read",
    "record_commits",
    "renew",
    "streams_away",
    "tables_away",
    "vote",
    "wait_until_current",
    "without_connector",
]
