"""Which run of a pipeline may deliver: the present one, and no other, however late its calls come."""

from dataclasses import replace

from headrace.gateway.core._errors import Superseded
from headrace.gateway.core._gateway import Gateway
from headrace.gateway.core._ledger import Ledger
from headrace.gateway.core._transaction import Part, Transaction

MOST_REPLACED = 64
"""So many runs that were replaced are remembered for each pipeline."""


def succeed(known: Ledger | None, ledger: Ledger, accept_older: bool) -> Ledger:
    """What is known of a pipeline once a run has told of its commit log.

    A commit log only grows: what was proved by a reader meanwhile stays proved.

    Raises:
        Superseded: the run is not the present one, and does not replace it.
    """
    if known is None:
        return ledger
    if known.run == ledger.run:
        return replace(ledger, committed=max(ledger.committed, known.committed), begun=known.begun, replaced=known.replaced)
    was_present = ledger.run in known.replaced or any(segment.run == ledger.run for segment in known.segments)
    newer = (ledger.number, ledger.run) > (known.number, known.run)
    if was_present or not (newer or accept_older):
        raise _superseded(known, ledger.run, ledger.number)
    return replace(ledger, replaced=(*known.replaced, known.run)[-MOST_REPLACED:])


async def admit(gateway: Gateway, pipeline: str, run: str, number: int) -> None:
    """Waits until a run has told that it is the present one.

    Raises:
        Superseded: another one is, and this one does not replace it.
    """
    while (ledger := gateway.ledgers.get(pipeline)) is None or ledger.run != run:
        if ledger is not None and (number, run) <= (ledger.number, ledger.run):
            raise _superseded(ledger, run, number)
        await gateway.settled.wait()


def check_present(gateway: Gateway, pipeline: str, run: str, number: int) -> Ledger:
    """What the present run has told, which must be this one: it may have been replaced while it waited.

    Raises:
        Superseded: it was.
    """
    ledger = gateway.ledgers.get(pipeline)
    if ledger is None:
        raise Superseded(f"run {number} of query {pipeline} was forgotten by the gateway; run the batch again")
    if ledger.run != run:
        raise _superseded(ledger, run, number)
    return ledger


def check_open(ledger: Ledger, transaction: Transaction) -> None:
    """Checks that a batch is still to be decided.

    Raises:
        Superseded: it is in the commit log.
    """
    if transaction.batch <= ledger.committed:
        raise Superseded(f"{transaction} is in the commit log already: what comes of it now is of a task that Spark has given up")


def replaced(ledger: Ledger, part: Part) -> Superseded | None:
    """Why a part that is on its way must not arrive; None where it may."""
    if part.transaction.pipeline != ledger.pipeline or part.run == ledger.run:
        return None
    return Superseded(_sentence(ledger, part.run))


def _superseded(present: Ledger, run: str, number: int) -> Superseded:
    back = "; where its checkpoint was set back on purpose, set onOlderCheckpoint to accept"
    return Superseded(f"{_sentence(present, f'{run}, number {number},')}{back}")


def _sentence(present: Ledger, run: str) -> str:
    return (
        f"run {run} of query {present.pipeline} is not the present one: run {present.run}, number {present.number}, has "
        "taken over; one checkpoint serves one query at a time"
    )
