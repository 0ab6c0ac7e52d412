"""Checks of sinks: what survives SIGKILL of the sink, and the death of the gateway."""

from headrace.conformance.core.checks import Checks
from headrace.conformance.core.errors import CheckFailed
from headrace.conformance.sinks.session import SinkSession, key
from headrace.conformance.sinks.trial import SinkTrial, part, rows, transaction
from headrace.protocol.v1.source_pb2 import CAPABILITY_RUNS

_COMMITTING_S = 0.25
_ABORTS = 3

checks: Checks[SinkTrial] = Checks()


@checks.check("fresh", "SNK-5", needs=("two-phase",))
async def fresh(trial: SinkTrial) -> None:
    """It lists something in its first SinkHello, although it has nothing."""
    session = await trial.begin()
    said = session.hello
    assert said is not None
    trial.require(not (said.staged or said.prepared or said.committed), "its first SinkHello lists something")


@checks.check("lists-staged", "SNK-5", "SNK-14", needs=("two-phase",))
async def lists_staged(trial: SinkTrial) -> None:
    """After SIGKILL it does not list a part in SinkHello that it had staged."""
    session = await trial.begin()
    of = transaction(0)
    await trial.staged(session, part(of, 0), rows("left"))
    await trial.staged(session, part(of, 1), rows("right"))
    unfinished = session.start(part(of, 2))
    session.rows(unfinished, rows("unfinished"))
    said = (await trial.after_a_crash(session)).hello
    assert said is not None
    listed = sorted(staged.partition for staged in said.staged if staged.transaction == of)
    trial.require(listed == [0, 1], f"partitions 0 and 1 were staged, and SinkHello lists {listed}")


@checks.check("vote-after-crash", "SNK-14", needs=("two-phase", "read"))
async def vote_after_crash(trial: SinkTrial) -> None:
    """After SIGKILL it cannot prepare and commit a part that it had staged."""
    session = await trial.begin()
    of = transaction(0)
    await trial.staged(session, part(of), rows("a"))
    session = await trial.after_a_crash(session)
    await trial.votes(session, of, part(of))
    await trial.commits(session, of)
    await trial.shows(rows("a"), "after SIGKILL between Staged and Prepare")


@checks.check("lists-prepared", "SNK-5", "SNK-22", needs=("two-phase",))
async def lists_prepared(trial: SinkTrial) -> None:
    """After SIGKILL it does not list a transaction in SinkHello that it had prepared, with its parts."""
    session = await trial.begin()
    of = transaction(0)
    await trial.staged(session, part(of), rows("a"))
    await trial.votes(session, of, part(of))
    said = (await trial.after_a_crash(session)).hello
    assert said is not None
    trial.require(of in said.prepared, "SinkHello.prepared does not list the transaction")
    trial.require(part(of) in said.staged, "SinkHello.staged does not list the part of the prepared transaction")


@checks.check("commit-after-crash", "SNK-22", "SNK-26", needs=("two-phase", "read"))
async def commit_after_crash(trial: SinkTrial) -> None:
    """After SIGKILL it cannot commit a transaction that it had prepared."""
    session = await trial.begin()
    of = transaction(0)
    await trial.staged(session, part(of), rows("a"))
    await trial.votes(session, of, part(of))
    session = await trial.after_a_crash(session)
    await trial.commits(session, of)
    await trial.shows(rows("a"), "after SIGKILL between Prepared and Commit")


@checks.check("crash-in-commit", "SNK-27", needs=("two-phase", "read"))
async def crash_in_commit(trial: SinkTrial) -> None:
    """After SIGKILL between Commit and Committed, the transaction is lost, or visible twice."""
    session = await trial.begin()
    of = transaction(0)
    await trial.staged(session, part(of), rows("a"))
    await trial.votes(session, of, part(of))
    session.commit(of)
    # Long enough for Commit to arrive, and not long enough for a sink that takes its time with it.
    await trial.changes.next(_COMMITTING_S)
    session = await trial.after_a_crash(session)
    said = session.hello
    assert said is not None
    trial.require(
        of in said.prepared or of in said.committed, "SinkHello lists the transaction neither as prepared nor as committed"
    )
    await trial.commits(session, of)
    await trial.shows(rows("a"), "after SIGKILL between Commit and Committed")


@checks.check("lists-committed", "SNK-5", "SNK-9", needs=("two-phase",))
async def lists_committed(trial: SinkTrial) -> None:
    """SinkHello does not list the last committed batch of each pipeline, or still lists it as prepared."""
    session = await trial.begin()
    last = [transaction(2, "first"), transaction(0, "second")]
    for of in (transaction(1, "first"), *last):
        await trial.staged(session, part(of), rows("a"))
        await trial.votes(session, of, part(of))
        await trial.commits(session, of)
    said = (await trial.after_a_crash(session)).hello
    assert said is not None
    listed = sorted(key(of) for of in said.committed)
    trial.require(listed == sorted(map(key, last)), f"SinkHello.committed has {listed}, and must have {sorted(map(key, last))}")
    trial.require(not said.prepared, "SinkHello still lists a committed transaction as prepared")


@checks.check("abort-after-crash", "SNK-30", "SNK-5", needs=("two-phase", "read"))
async def abort_after_crash(trial: SinkTrial) -> None:
    """It keeps, or lists again, what was aborted after SIGKILL."""
    session = await trial.begin()
    of, other = transaction(0), transaction(0, "another-query")
    await trial.staged(session, part(of), rows("staged"))
    await trial.staged(session, part(other), rows("prepared"))
    await trial.votes(session, other, part(other))
    session = await trial.after_a_crash(session)
    # An Abort has no answer, and may be handled after what follows: SIGKILL may come first, and the Abort is sent again.
    for later in range(1, 1 + _ABORTS):
        session.abort(of)
        session.abort(other)
        await trial.staged(session, part(transaction(later)), rows("later"))
        await trial.staged(session, part(transaction(later, "another-query")), rows("later"))
        session = await trial.after_a_crash(session)
        said = session.hello
        assert said is not None
        listed = [staged.transaction for staged in said.staged if staged.transaction in (of, other)] + list(said.prepared)
        if not listed:
            break
    else:
        raise CheckFailed(f"after {_ABORTS} Aborts, SinkHello still lists what was aborted: {list(map(key, listed))}")
    await trial.shows([], "after Abort")


@checks.check("runs", "SNK-37", needs=("two-phase", "read", "runs"))
async def runs(trial: SinkTrial) -> None:
    """It mixes up what two runs have prepared of one batch, names no run after SIGKILL, or lacks CAPABILITY_RUNS."""
    session = await trial.begin()
    said = session.hello
    assert said is not None
    trial.require(CAPABILITY_RUNS in said.capabilities, "SinkHello.capabilities lacks CAPABILITY_RUNS")
    replaced, current, other = (transaction(0, run=run) for run in ("replaced-run", "current-run", "another-run"))
    for of in (replaced, current, other):
        await trial.staged(session, part(of, attempt=f"{of.run}/0"), rows(of.run))
    await trial.votes(session, replaced, part(replaced, attempt="replaced-run/0"))
    await trial.votes(session, current, part(current, attempt="current-run/0"))
    session = await trial.after_a_crash(session)
    said = session.hello
    assert said is not None
    listed = sorted(of.run for of in said.prepared)
    trial.require(
        listed == ["current-run", "replaced-run"],
        f"current-run and replaced-run were prepared; SinkHello.prepared names {listed}",
    )
    session.abort(replaced)
    session.abort(other)
    await trial.commits(session, current)
    await trial.shows(rows("current-run"), "after two of three runs were aborted")


@checks.check("staged-survives", "SNK-14", needs=("at-least-once", "read"))
async def staged_survives(trial: SinkTrial) -> None:
    """After SIGKILL, rows are gone for which an at-least-once sink has sent Staged."""
    session = await trial.begin()
    await trial.staged(session, part(transaction(0)), rows("a"))
    await trial.after_a_crash(session)
    await trial.shows_at_least(rows("a"), "after Staged, SIGKILL and a restart")


@checks.check("gateway-restart", "SES-28", "SNK-5")
async def gateway_restart(trial: SinkTrial) -> None:
    """It does not come back to a gateway that was away, or forgets then what is undecided."""
    session = await trial.begin()
    of = transaction(0)
    await trial.staged(session, part(of), rows("a"))
    two_phase = trial.spec.mode == "two-phase"
    if two_phase:
        await trial.votes(session, of, part(of))
    await trial.cut()
    await trial.pause(trial.spec.deadlines.quiet)
    await trial.bring_back()
    session = await trial.session()
    if two_phase:
        assert session.hello is not None
        trial.require(of in session.hello.prepared, "SinkHello does not list the transaction that was prepared")
        await trial.commits(session, of)
    await _goes_on(trial, session)


@checks.check("idle-gateway", "SES-12")
async def idle_gateway(trial: SinkTrial) -> None:
    """It ends the session, or answers no more, when the gateway has had nothing to say for a while."""
    session = await trial.begin()
    await trial.pause(3 * trial.spec.deadlines.quiet)
    trial.require(not session.ended, "it ended the session while the gateway had nothing to say")
    await _goes_on(trial, session)


async def _goes_on(trial: SinkTrial, session: SinkSession) -> None:
    """Publishes another batch."""
    of = transaction(1)
    await trial.staged(session, part(of, 0, "run-2/0"), rows("next"))
    await trial.publish(session, of, part(of, 0, "run-2/0"))
