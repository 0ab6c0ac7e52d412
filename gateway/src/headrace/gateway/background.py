"""Background work that lasts: an error is logged and is a fault of the gateway, and the work is done again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from headrace.contract.backoff import Backoff
from headrace.gateway.own_faults import OwnFaultKind, OwnFaults

FIRST_WAIT_S = 0.5
MAX_WAIT_S = 10.0
_REMEDY = "the gateway does it again by itself; if it does not succeed, restart the gateway, and report this with its log"

log = logging.getLogger("headrace.gateway")


async def lasting(name: str, work: Callable[[], Awaitable[None]], faults: OwnFaults) -> None:
    """Does background work until it ends or is cancelled. After an error it is begun again, after a pause that grows.

    Args:
        name: Its purpose, for people.
        work: Does it.
        faults: Where an error is noted, until the work has run for longer than the longest pause.
    """
    backoff = Backoff(FIRST_WAIT_S, MAX_WAIT_S)
    settling: asyncio.TimerHandle | None = None

    def settle() -> None:
        faults.end(f"work {name}", OwnFaultKind.GATEWAY_FAILS)
        backoff.reset()

    while True:
        try:
            await work()
            settle()
            return
        except Exception as error:
            _note(name, error, faults)
        finally:
            if settling is not None:
                settling.cancel()
        await asyncio.sleep(backoff.next())
        settling = asyncio.get_running_loop().call_later(MAX_WAIT_S, settle)


@contextmanager
def lasting_step(name: str, faults: OwnFaults) -> Iterator[None]:
    """Takes one step of work that is repeated: an error of the step is noted, and does not end what follows.

    Args:
        name: The purpose of the step, for people.
        faults: Where an error is noted, until the step succeeds.
    """
    try:
        yield
    except Exception as error:
        _note(name, error, faults)
    else:
        faults.end(f"work {name}", OwnFaultKind.GATEWAY_FAILS)


def _note(name: str, error: Exception, faults: OwnFaults) -> None:
    cause = f"{name} has failed: {type(error).__name__}: {error}"
    faults.note(f"work {name}", OwnFaultKind.GATEWAY_FAILS, cause[:500], _REMEDY)
    log.error("background work failed; it is done again", exc_info=error, extra={"work": name})
