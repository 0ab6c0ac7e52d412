"""Puts tokens in force that change in the configuration file while the gateway runs."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from headrace.gateway._config import Config
from headrace.gateway._errors import ConfigError
from headrace.gateway._identity import TokenRegistry
from headrace.gateway._stamps import stamp_of
from headrace.gateway.core import Gateway

INTERVAL_S = 1.0

log = structlog.get_logger("headrace.gateway")


@dataclass(frozen=True)
class ConfigSource:
    """Where a configuration comes from.

    Attributes:
        path: The file.
        load: Reads and checks it; raises ConfigError where it is wrong.
    """

    path: Path
    load: Callable[[], Config]


async def follow(source: ConfigSource, config: Config, registry: TokenRegistry, gateway: Gateway) -> None:
    """Looks at the file once a second, until it is cancelled."""
    seen, in_force = stamp_of(source.path), config
    while True:
        await asyncio.sleep(INTERVAL_S)
        stamp = stamp_of(source.path)
        if stamp is not None and stamp != seen:
            seen = stamp
            in_force = reload(source, in_force, registry, gateway)


def reload(source: ConfigSource, in_force: Config, registry: TokenRegistry, gateway: Gateway) -> Config:
    """Takes over the file's tokens and ends the sessions of those that are gone; returns what is in force now.

    A file that is wrong changes nothing: the old tokens stay in force, and the log says why.
    """
    try:
        config = source.load()
    except ConfigError as error:
        log.error("the configuration changed and is wrong; the old tokens stay in force", problems=str(error).splitlines())
        return in_force
    if in_force.tokens and not config.tokens:
        log.error("the configuration has no tokens any more; the old ones stay in force until a restart", path=str(source.path))
        return in_force
    if config.model_copy(update={"tokens": in_force.tokens}) != in_force:
        log.warning("the configuration changed; all but its tokens takes effect at a restart", path=str(source.path))
    if config.tokens == in_force.tokens:
        return in_force
    registry.replace(config.tokens)
    ended = gateway.end_revoked(registry)
    log.info("tokens replaced", tokens=len(config.tokens), sessions_ended=ended)
    return in_force.model_copy(update={"tokens": config.tokens})
