"""Applies changes of the configuration file while the gateway runs: its tokens at once, everything else on request."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.configuration import ConfigurationError
from headrace.contract.certificates import Stamp, stamp_of
from headrace.gateway.config import Config
from headrace.gateway.core import Gateway
from headrace.gateway.core.base.errors import ChangeRefused
from headrace.gateway.core.batches import declare
from headrace.gateway.core.intake import apply_pauses
from headrace.gateway.identity import TokenRegistry
from headrace.gateway.own_faults import OwnFaultKind

INTERVAL_S = 1.0
RELOADABLE = frozenset(
    {
        "limits.max_streams_per_session",
        "limits.hello_timeout_seconds",
        "limits.write_timeout_seconds",
        "limits.drain_timeout_seconds",
        "limits.query_lease_seconds",
        "limits.forget_after_seconds",
        "log.level",
        "paused.streams",
        "paused.connectors",
        "paused.pipelines",
        "paused.sinks",
        "peek.enabled",
        "peek.messages_per_second",
        "peek.bytes_per_second",
        "peek.preview_bytes",
        "peek.max_listeners",
        "streams",
        "tokens",
    }
)
"""The keys that take effect without a restart."""

_MAX_CAUSE = 500
_REMEDY = "correct the file; until then, what was valid before stays in effect, and a restart of the gateway would fail"

log = logging.getLogger("headrace.gateway")


@dataclass(frozen=True)
class ConfigSource:
    """The source of a configuration.

    Attributes:
        path: The file.
        load: Reads and validates it; raises ConfigurationError if it is invalid.
        env_file: The file of its variables; None without one.
    """

    path: Path
    load: Callable[[], Config]
    env_file: Path | None = None

    def stamps(self) -> list[Stamp]:
        """Returns what changes when a file is written or replaced."""
        return [stamp_of(path) for path in (self.path, self.env_file) if path is not None]


class Reloading:
    """The configuration in effect, and how it changes."""

    def __init__(self, source: ConfigSource, config: Config, registry: TokenRegistry, gateway: Gateway) -> None:
        self._source = source
        self._in_force = config
        self._registry = registry
        self._gateway = gateway
        self._last_stamps = source.stamps()
        self._invalid = ""
        """Why the file could not be used when it was last read; empty if it could."""

    async def follow(self) -> None:
        """Checks the file for changes once a second, and applies the changes of its tokens. Runs until cancelled.

        A file that it could not use is read again each time: a disk that fails once does not change the file.
        """
        while True:
            await asyncio.sleep(INTERVAL_S)
            stamps = self._source.stamps()
            if stamps != self._last_stamps or self._invalid:
                self._last_stamps = stamps
                self.reload_tokens()

    def _load(self) -> Config:
        """Reads and validates the file; an invalid one is a fault of the gateway until it is valid again.

        Raises:
            ConfigurationError: it is invalid.
        """
        part = f"file {self._source.path}"
        try:
            config = self._source.load()
        except ConfigurationError as error:
            cause = " ".join(str(error).split())[:_MAX_CAUSE]
            self._gateway.own_faults.note(part, OwnFaultKind.CONFIGURATION_INVALID, cause, _REMEDY)
            self._invalid = str(error)
            raise
        self._invalid = ""
        self._gateway.own_faults.end(part, OwnFaultKind.CONFIGURATION_INVALID)
        return config

    def reload_tokens(self) -> None:
        """Applies the file's tokens, and ends the sessions of removed ones.

        An invalid file changes nothing: the old tokens remain valid, and the problems are logged.
        """
        told = self._invalid
        try:
            config = self._load()
        except ConfigurationError as error:
            if str(error) != told:
                log.error(
                    "the configuration changed and is invalid; the old tokens stay in force",
                    extra={"problems": str(error).splitlines()},
                )
            return
        if self._in_force.tokens and not config.tokens:
            path = str(self._source.path)
            log.error("the configuration no longer has tokens; the old ones stay in force until a restart", extra={"path": path})
            return
        if others := sorted(set(differences(self._in_force, config)) - {"tokens"}):
            log.warning(
                "the configuration changed; everything but its tokens takes effect with a reload or a restart",
                extra={"keys": others},
            )
        self._replace_tokens(config)
        self._in_force = self._in_force.model_copy(update={"tokens": config.tokens})

    def reload(self) -> list[str]:
        """Applies everything that has changed, or nothing; returns the changes, a line each.

        Raises:
            ChangeRefused: the file is invalid, or a change needs a restart; the previous configuration stays in effect.
        """
        try:
            config = self._load()
        except ConfigurationError as error:
            raise ChangeRefused(f"the configuration is invalid, and the previous one stays in effect:\n{error}") from None
        changes = differences(self._in_force, config)
        if fixed := sorted(set(changes) - RELOADABLE):
            raise ChangeRefused(
                f"{', '.join(fixed)} cannot change without a restart, so nothing has changed; undo that, or restart the gateway"
            )
        if self._in_force.tokens and not config.tokens:
            raise ChangeRefused("the configuration no longer has tokens, so nothing has changed; restart the gateway for that")
        gateway = self._gateway
        gateway.limits, gateway.peek = config.limits, config.peek
        if not config.peek.enabled:
            gateway.dead_letters.clear()
        if "streams" in changes:
            declare(gateway, config.streams)
        gateway.pauses.configure(config.paused)
        apply_pauses(gateway)
        if "log.level" in changes:
            logging.getLogger().setLevel(config.log.level.upper())
        self._replace_tokens(config)
        self._in_force = config
        lines = [f"{key}: {change}" for key, change in sorted(changes.items())]
        log.info("configuration reloaded", extra={"changes": lines})
        return lines

    def _replace_tokens(self, config: Config) -> None:
        if config.tokens != self._in_force.tokens:
            self._registry.replace(config.tokens)
            ended = self._gateway.end_revoked(self._registry)
            log.info("tokens replaced", extra={"tokens": len(config.tokens), "calls_ended": ended})


def differences(before: Config, after: Config) -> dict[str, str]:
    """Returns what differs between two configurations, by key; for keys that need a restart, without values."""
    old, new = (dict(_flat(config.model_dump(mode="json", exclude={"tokens"}))) for config in (before, after))
    found = {
        key: f"{old.get(key)} -> {new.get(key)}" if key in RELOADABLE else "changed"
        for key in old | new
        if old.get(key) != new.get(key)
    }
    if before.tokens != after.tokens:
        known, named = ({token.name: token for token in config.tokens} for config in (before, after))
        names = sorted(name for name in known | named if known.get(name) != named.get(name))
        found["tokens"] = f"{', '.join(names)} changed" if names else "their order changed"
    return found


def _flat(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
