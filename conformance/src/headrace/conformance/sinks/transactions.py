"""Checks of sinks: the vote, the decision, and what is visible when."""

import grpc

from headrace.conformance.core.checks import Checks
from headrace.conformance.sinks.session import key
from headrace.conformance.sinks.trial import SinkTrial, part, rows, transaction

checks: Checks[SinkTrial] = Checks()


@checks.check("prepare", "SNK-20", needs=("transactional",))
async def prepare(trial: SinkTrial) -> None:
    """It does not answer Prepare with Prepared although it has all named parts."""
    session = await trial.begin()
    of = transaction(0)
    for partition in range(3):
        await trial.staged(session, part(of, partition), rows(f"p{partition}"))
    await trial.votes(session, of, *(part(of, partition) for partition in range(3)))


@checks.check("left-out", "SNK-20", needs=("transactional", "read"))
async def left_out(trial: SinkTrial) -> None:
    """It shows rows of a part that Prepare does not name, such as another attempt of the same task."""
    session = await trial.begin()
    of = transaction(0)
    first, second, other = part(of, 0, "run-1/0"), part(of, 0, "run-1/1"), part(of, 1, "run-1/2")
    await trial.staged(session, first, rows("first"))
    await trial.staged(session, second, rows("second"))
    await trial.staged(session, other, rows("other"))
    await trial.publish(session, of, second, other)
    await trial.shows([*rows("second"), *rows("other")], "after a Prepare that names two of three parts")


@checks.check("missing-part", "SNK-21", needs=("transactional",))
async def missing_part(trial: SinkTrial) -> None:
    """It votes for a transaction although it does not have a part that Prepare names."""
    session = await trial.begin()
    of = transaction(0)
    await trial.staged(session, part(of, 0), rows("has"))
    session.prepare(of, part(of, 0), part(of, 1))
    vote = session.votes[key(of)]
    await trial.until(lambda: vote.answered, "Failed for a transaction of which a part is missing")
    trial.require(vote.failed is not None, "it answered Prepared, and does not have the part of partition 1")


@checks.check("early", "SNK-14", "SNK-32", needs=("transactional", "read"))
async def early(trial: SinkTrial) -> None:
    """Rows are visible before Commit, or in a batch-idempotent sink before Prepare."""
    session = await trial.begin()
    of = transaction(0)
    await trial.staged(session, part(of), rows("a"))
    await trial.shows([], "after Staged")
    if trial.spec.mode == "two-phase":
        await trial.votes(session, of, part(of))
        await trial.shows([], "after Prepared")


@checks.check("visible", "SNK-14", "SNK-26", "SNK-32", needs=("read",))
async def visible(trial: SinkTrial) -> None:
    """Rows are not visible when the sink reports them as such: with Committed, Prepared or Staged, by its mode."""
    session = await trial.begin()
    shown = []
    for batch in range(3):
        of = transaction(batch)
        await trial.staged(session, part(of, 0), rows(f"b{batch}-left"))
        await trial.staged(session, part(of, 1), rows(f"b{batch}-right"))
        await trial.publish(session, of, part(of, 0), part(of, 1))
        shown += [*rows(f"b{batch}-left"), *rows(f"b{batch}-right")]
        await trial.shows(shown, f"after batch {batch}")


@checks.check("pipelines", "SNK-28", "SNK-29", needs=("two-phase", "read"))
async def pipelines(trial: SinkTrial) -> None:
    """It mixes the same batch of several pipelines up, or several commits."""
    session = await trial.begin()
    names = [transaction(4, "first"), transaction(5, "first"), transaction(4, "second")]
    for index, of in enumerate(names):
        await trial.staged(session, part(of), rows(f"t{index}"))
        await trial.votes(session, of, part(of))
    for of in names[:2]:
        session.commit(of)
    for of in names[:2]:
        question = session.commits[key(of)]
        await trial.until(lambda question=question: question.confirmed, f"Committed for batch {of.batch}")  # type: ignore[misc]
    await trial.shows([*rows("t0"), *rows("t1")], "after two of three commits")
    await trial.commits(session, names[2])
    await trial.shows([*rows("t0"), *rows("t1"), *rows("t2")], "after the commit of another pipeline")


@checks.check("commit-again", "SNK-27", needs=("two-phase", "read"))
async def commit_again(trial: SinkTrial) -> None:
    """It shows a transaction again that is committed again, or does not answer Committed."""
    session = await trial.begin()
    of = transaction(0)
    await trial.staged(session, part(of), rows("once"))
    await trial.publish(session, of, part(of))
    await trial.commits(session, of)
    await trial.shows(rows("once"), "after the second Commit")
    session.close(grpc.StatusCode.UNAVAILABLE, "the gateway is stopping")
    await trial.commits(await trial.session(), of)
    await trial.shows(rows("once"), "after a Commit in another session")


@checks.check("commit-unknown", "SNK-29", needs=("two-phase",))
async def commit_unknown(trial: SinkTrial) -> None:
    """It answers Committed for a transaction that it has never had."""
    session = await trial.begin()
    of = transaction(3)
    session.commit(of)
    question = session.commits[key(of)]
    await trial.until(lambda: question.answered, "Failed for an unknown transaction")
    trial.require(question.failed is not None, "it answered Committed for a transaction of which it has never had a part")


@checks.check("abort-staged", "SNK-30", needs=("transactional", "read"))
async def abort_staged(trial: SinkTrial) -> None:
    """After Abort it keeps what was staged, or answers what still arrives of the transaction."""
    session = await trial.begin()
    of = transaction(0)
    await trial.staged(session, part(of, 0, "run-1/0"), rows("staged"))
    partial = session.start(part(of, 1, "run-1/1"))
    session.rows(partial, rows("partial"))
    session.abort(of)
    session.rows(partial, rows("late"))
    session.end(partial)
    # The batch runs again.
    await trial.staged(session, part(of, 0, "run-2/0"), rows("again"))
    trial.require(not session.parts[partial].answered, f"part {partial}: an answer after Abort")
    await trial.publish(session, of, part(of, 0, "run-2/0"))
    await trial.shows(rows("again"), "after a batch that was aborted and has run again")


@checks.check("abort-prepared", "SNK-30", needs=("two-phase", "read"))
async def abort_prepared(trial: SinkTrial) -> None:
    """After Abort it keeps what it had prepared."""
    session = await trial.begin()
    of = transaction(0)
    await trial.staged(session, part(of, 0, "run-1/0"), rows("aborted"))
    await trial.votes(session, of, part(of, 0, "run-1/0"))
    session.abort(of)
    await trial.staged(session, part(of, 0, "run-2/0"), rows("again"))
    await trial.votes(session, of, part(of, 0, "run-2/0"))
    await trial.commits(session, of)
    await trial.shows(rows("again"), "after a transaction that was aborted when it was prepared, and has run again")


@checks.check("batch-again", "SNK-32", needs=("batch-idempotent", "read"))
async def batch_again(trial: SinkTrial) -> None:
    """It writes a transaction again that it has written before."""
    session = await trial.begin()
    of = transaction(0)
    await trial.staged(session, part(of, 0, "run-1/0"), rows("once"))
    await trial.votes(session, of, part(of, 0, "run-1/0"))
    await trial.staged(session, part(of, 0, "run-2/0"), rows("once"))
    await trial.votes(session, of, part(of, 0, "run-2/0"))
    await trial.shows(rows("once"), "after a batch that was written, and has run again")
    session = await trial.after_a_crash(session)
    await trial.staged(session, part(of, 0, "run-3/0"), rows("once"))
    await trial.votes(session, of, part(of, 0, "run-3/0"))
    await trial.shows(rows("once"), "after a batch that has run again after SIGKILL")
