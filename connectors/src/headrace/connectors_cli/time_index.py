"""Asks a source where a time is in its streams, by the time index of the system behind it."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headrace.connectors_cli.loading import built, configuration
from headrace.terminal import EXIT_INVALID, Failure

if TYPE_CHECKING:
    from headrace.connectors import Implementation, Parameters
    from headrace.sdk import AsyncSource, Position, Source

_START = "start"
"""The parameter of a source that finds a time itself."""
_ANSWER_S = 60.0
_CLOSE_S = 10.0
"""How long its `close` may take. The command ends without it."""


@dataclass(frozen=True)
class TimePositions:
    """Where a time is in the streams of a source.

    Attributes:
        time: The time, in ISO 8601.
        source: The name of the source.
        positions: The position before the first message that is not older, by stream; None for the beginning.
    """

    time: str
    source: str
    positions: "Mapping[str, Position | None]"


def positions_of(target: str, time: datetime) -> TimePositions:
    """Asks the source that `FILE` or `FILE:NAME` configures.

    Raises:
        Failure: The file is invalid, the source cannot find a time, or its system does not answer.
    """
    configured = configuration(target)
    return positions_at(configured.connector.name, configured.implementation, configured.parameters, time)


def positions_at(
    name: str, implementation: "Implementation[Any]", parameters: "Parameters", time: datetime | None
) -> TimePositions:
    """Asks a source.

    Args:
        name: The name of its connector.
        implementation: The connector.
        parameters: Its parameters; their `start` is replaced.
        time: The time, in UTC unless it names a zone; None if the user has named none.

    Raises:
        Failure: There is no time, the source cannot find one, or its system does not answer.
    """
    if time is None:
        raise Failure("name the time, with --time", EXIT_INVALID)
    cannot = Failure(
        f"{name} cannot find a time: use --time of headrace positions, which goes by the micro-batches of the checkpoint",
        EXIT_INVALID,
    )
    if _START not in type(parameters).model_fields:
        raise cannot
    at = (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).isoformat()
    source: Any = built(implementation, type(parameters).model_validate({**parameters.model_dump(), _START: at}))
    try:
        found = asyncio.run(_ask(source, cannot))
    except TimeoutError:
        raise Failure(f"{name} did not answer within {_ANSWER_S:g} s: can it reach its system?") from None
    if not found:
        raise Failure(f"{name} has no streams")
    return TimePositions(at, source.name, dict(sorted(found.items())))


async def _ask(source: "Source | AsyncSource", cannot: Failure) -> "dict[str, Position | None]":
    """Returns where the streams of a source begin, and closes it."""
    from headrace.sdk import AsyncSource, HeadraceError

    async def answer(call: Callable[..., Any], *arguments: Any) -> Any:
        return await (call(*arguments) if isinstance(source, AsyncSource) else asyncio.to_thread(call, *arguments))

    try:
        if not source.chooses_start:
            # Its `start` is for what it reads itself: it would not tell where that is.
            raise cannot
        async with asyncio.timeout(_ANSWER_S):
            partitions = await answer(source.partitions)
            starts = await answer(source.starts, partitions)
    except HeadraceError as error:
        raise Failure(str(error), error.exit_code) from None
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await answer(source.close)
    return {f"{source.name}/{partition}": starts.get(partition) for partition in partitions}
