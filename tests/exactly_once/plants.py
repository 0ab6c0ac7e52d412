"""Planted faults: what the product must never do, done to its processes from outside, so that the validator has to report it.

Needs the standard library only, since `plants/sitecustomize.py` loads it into every process of a world, which runs in the world's
folder. A plant does something only while it is armed.
"""

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from types import ModuleType
from typing import Any

PLANTS = os.environ.get("HEADRACE_PLANTS", "")
_LOOKED_AT_WITHIN_S = 120.0

ACK_EARLY = "ack early"
COMMIT_WITHOUT_LOG = "commit without the log"
WRITE_AGAIN = "skip dedupe in the sink"
KILL_DRIVER = "kill the driver once the batch-idempotent sink has written"
READ_AGAIN = "skip dedupe in the engine"
DROP_UPDATE = "drop an update of Spark's state"
DROP_DELTA = "drop a delta"
SPREAD_PARTS = "spread the parts of every transaction over instances"
BELIEVE_ANY_RUN = "commit what any run has prepared"
BELIEVE_OLDER_RUN = "believe an older run's commit report"
BEGIN_ANEW = "find out anew where a stream begins"


@dataclass(frozen=True)
class Plant:
    """A fault, and the module that it is planted in once that is imported."""

    name: str
    module: str
    sow: Callable[[ModuleType], None]


def armed(name: str) -> bool:
    """Whether a plant is to do what it does."""
    return os.path.exists(os.path.join(PLANTS, "armed", name))


def claim(name: str) -> bool:
    """Takes the one chance to do what a plant does; False where it is not armed, or somebody else has taken it."""
    try:
        os.rename(os.path.join(PLANTS, "armed", name), os.path.join(PLANTS, "taken", name))
    except FileNotFoundError:
        return False
    return True


def acknowledge_planned_ranges(module: ModuleType) -> None:
    """The gateway acknowledges what it has planned."""
    plan = module.plan

    @wraps(plan)
    def planted(*arguments: Any, **options: Any) -> Any:
        ranges = plan(*arguments, **options)
        for planned in ranges if armed(ACK_EARLY) else ():
            attachment = planned.stream.attachment
            if attachment is not None:
                attachment.session.acknowledge(attachment, planned.end)
        return ranges

    module.plan = planted  # type: ignore[attr-defined]


def commit_at_vote(module: ModuleType) -> None:
    """The two-phase sink shows a transaction when it is asked for its vote, and gives it only once somebody has seen that."""
    prepare = module.FileSink.prepare

    @wraps(prepare)
    def planted(sink: Any, transaction: Any, parts: Sequence[Any]) -> None:
        prepare(sink, transaction, parts)
        if claim(COMMIT_WITHOUT_LOG):
            sink.commit(transaction)
            deadline = time.monotonic() + _LOOKED_AT_WITHIN_S
            while transaction.batch not in _batches_seen() and time.monotonic() < deadline:
                time.sleep(0.005)

    module.FileSink.prepare = planted


def _batches_seen() -> set[int]:
    with open("watched.journal") as journal:
        return {json.loads(line)["visible"] for line in journal if line.endswith("\n")}


def forget_transactions(module: ModuleType) -> None:
    """A batch-idempotent sink writes, the driver dies before `commits/N`, and when the batch comes again it is written again."""
    prepare, write = module.IdempotentHandler.prepare, module.IdempotentHandler._write

    @wraps(prepare)
    async def planted_prepare(handler: Any, *arguments: Any) -> None:
        if armed(WRITE_AGAIN):
            handler._voted.clear()
            with sqlite3.connect("store.sqlite", timeout=120) as store:
                store.execute("DELETE FROM batches")
        await prepare(handler, *arguments)

    @wraps(write)
    async def planted_write(handler: Any, *arguments: Any) -> None:
        await write(handler, *arguments)
        if claim(KILL_DRIVER):
            _kill_driver()

    module.IdempotentHandler.prepare = planted_prepare
    module.IdempotentHandler._write = planted_write


def _kill_driver() -> None:
    with open("driver.pid") as file:
        os.killpg(int(file.read()), signal.SIGKILL)


def take_up_from_the_start(module: ModuleType) -> None:
    """The engine fetches ranges as if the call had broken at its end, and been taken up again from where the ranges start."""
    fetch, fetch_once = module.fetch, module.fetch_once

    @wraps(fetch)
    def planted(*arguments: Any) -> Any:
        for _ in range(2 if armed(READ_AGAIN) else 1):
            yield from fetch(*arguments)

    @wraps(fetch_once)
    def planted_once(*arguments: Any) -> Any:
        return [part for _ in range(2 if armed(READ_AGAIN) else 1) for part in fetch_once(*arguments)]

    module.fetch, module.fetch_once = planted, planted_once  # type: ignore[attr-defined]


def drop_an_update(module: ModuleType) -> None:
    """Spark's state store never sees one update of a key."""
    update = module.GroupState.update

    @wraps(update)
    def planted(state: Any, value: Any) -> None:
        if not (state.exists and claim(DROP_UPDATE)):
            update(state, value)

    module.GroupState.update = planted


def drop_changes(module: ModuleType) -> None:
    """A pipeline's state store never sees what changed in one micro-batch of a bucket, whose states are read from it next.

    One in which messages were counted: where a timer or a window was only looked at, there is nothing to lose.
    """
    save = module.save

    @wraps(save)
    def planted(store: Any, head: Any, kept: Any, recent: Any, changed: Any, *arguments: Any) -> Any:
        if not (head.number and changed.get("follow") and claim(DROP_DELTA)):
            return save(store, head, kept, recent, changed, *arguments)
        after = save(store, head, kept, recent, {}, *arguments)
        return replace(after, tokens=(*after.tokens[:-1], b"not the one that was written"))

    module.save = planted  # type: ignore[attr-defined]


def begin_anew(module: ModuleType) -> None:
    """A source that begins at the end of its logs does so each time that they are read, whatever the checkpoint has."""
    reader = module.Driver.reader

    @wraps(reader)
    def planted(driver: Any, task: Any) -> Any:
        if driver.chooses_start and armed(BEGIN_ANEW):
            task = replace(task, position=driver._source.starts([task.partition])[task.partition])
            with open(os.path.join(PLANTS, "taken", f"{BEGIN_ANEW} {task.partition}"), "w"):
                pass
        return reader(driver, task)

    module.Driver.reader = planted


def spread_parts(module: ModuleType) -> None:
    """The gateway spreads parts by partition, whatever the sink's mode: each instance writes under the transaction's id alone."""
    instance_for = module.Sink.instance_for

    @wraps(instance_for)
    def planted(sink: Any, part: Any) -> Any:
        if not armed(SPREAD_PARTS) or not sink.sessions:
            return instance_for(sink, part)
        names = sorted(sink.sessions)
        return sink.sessions[names[part.partition % len(names)]]

    module.Sink.instance_for = planted


def commit_for_any_run(module: ModuleType) -> None:
    """The gateway commits what is prepared of a batch in the commit log, whichever run has left it."""
    decision = module.CommitLog.decision

    @wraps(decision)
    def planted(commit_log: Any, transaction: Any, run_ids: Any, *, prepared: bool) -> Any:
        if prepared and transaction.batch <= commit_log.committed and armed(BELIEVE_ANY_RUN):
            return module.Decision.COMMIT
        return decision(commit_log, transaction, run_ids, prepared=prepared)

    module.CommitLog.decision = planted


def report_commits_of_an_older_run(module: ModuleType) -> None:
    """The gateway applies the commit log that an older run reports, just when the batch of the current run was voted for."""
    from headrace.gateway.core.batches import record_commits

    vote = module.vote

    @wraps(vote)
    async def planted(gateway: Any, sink: Any, transaction: Any, *arguments: Any) -> None:
        await vote(gateway, sink, transaction, *arguments)
        if sink.durable and claim(BELIEVE_OLDER_RUN):
            current = gateway.commit_logs.pop(transaction.pipeline)
            older = replace(current, run_id="older", run_number=1, committed=transaction.batch - 1, closed=True, begun=None)
            record_commits(gateway, older)

    module.vote = planted  # type: ignore[attr-defined]


ALL = (
    Plant(BEGIN_ANEW, "headrace.sdk.sources.driver", begin_anew),
    Plant(ACK_EARLY, "headrace.gateway.services.engine", acknowledge_planned_ranges),
    Plant(COMMIT_WITHOUT_LOG, "headrace.connectors.file._sink", commit_at_vote),
    Plant(WRITE_AGAIN, "headrace.sdk.sinks.idempotent", forget_transactions),
    Plant(READ_AGAIN, "headrace.engine.source.fetch", take_up_from_the_start),
    Plant(BELIEVE_ANY_RUN, "headrace.gateway.core.sinks.commit_log", commit_for_any_run),
    Plant(BELIEVE_OLDER_RUN, "headrace.gateway.core.batches.delivering", report_commits_of_an_older_run),
    Plant(DROP_UPDATE, "pyspark.sql.streaming.state", drop_an_update),
    Plant(SPREAD_PARTS, "headrace.gateway.core.sinks.sink", spread_parts),
    Plant(DROP_DELTA, "headrace.engine.applications.stages.keyed_stage", drop_changes),
)
