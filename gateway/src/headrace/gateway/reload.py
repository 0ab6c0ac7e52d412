"""Applies changes to the tokens in the configuration file while the gateway runs."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from headrace.configuration import ConfigurationError
from headrace.gateway.config import Config
from headrace.gateway.core import Gateway
from headrace.gateway.identity import TokenRegistry
from headrace.gateway.stamps import stamp_of

INTERVAL_S = 1.0

log = structlog.get_logger("headrace.gateway")


@dataclass(frozen=True)
class ConfigSource:
    """The source of a configuration.

    Attributes:
        path: The file.
        load: Reads and validates it; raises ConfigurationError if it is invalid.
    """

    path: Path
    load: Callable[[], Config]


async def follow(source: ConfigSource, config: Config, registry: TokenRegistry, gateway: Gateway) -> None:
    """Checks the file for changes once a second, and applies them. Runs until cancelled."""
    seen, in_force = stamp_of(source.path), config
    while True:
        await asyncio.sleep(INTERVAL_S)
        stamp = stamp_of(source.path)
        if stamp is not None and stamp != seen:
            seen = stamp
            in_force = reload(source, in_force, registry, gateway)


def reload(source: ConfigSource, in_force: Config, registry: TokenRegistry, gateway: Gateway) -> Config:
    """Applies the file's tokens, and ends the sessions of removed ones; returns the configuration that is now in effect.

    An invalid file changes nothing: the old tokens remain valid, and the problems are logged.
    """
    try:
        config = source.load()
    except ConfigurationError as error:
        log.error("the configuration changed and is invalid; the old tokens stay in force", problems=str(error).splitlines())
        return in_force
    if in_force.tokens and not config.tokens:
        log.error("the configuration no longer has tokens; the old ones stay in force until a restart", path=str(source.path))
        return in_force
    if config.model_copy(update={"tokens": in_force.tokens}) != in_force:
        log.warning("the configuration changed; everything but its tokens takes effect after a restart", path=str(source.path))
    if config.tokens == in_force.tokens:
        return in_force
    registry.replace(config.tokens)
    ended = gateway.end_revoked(registry)
    log.info("tokens replaced", tokens=len(config.tokens), sessions_ended=ended)
    return in_force.model_copy(update={"tokens": config.tokens})
