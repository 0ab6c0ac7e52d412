"""The configuration of the gateway, which outlives it, and how it changes while the gateway runs."""

from collections.abc import Iterator
from pathlib import Path

from headrace.gateway.config import Config, Limits, Paused, StreamRule, Token
from headrace.gateway.identity import token_digest
from headrace.gateway.reload import ConfigSource
from headrace.simulation.schedule import Schedule


class Configuration:
    """The content of the gateway's configuration file."""

    def __init__(self, schedule: Schedule) -> None:
        conditions = schedule.conditions
        limits = Limits(
            buffer_bytes=conditions.buffer_bytes,
            session_messages=max(conditions.session_messages, conditions.max_frame_messages),
            max_frame_messages=conditions.max_frame_messages,
            max_sessions=conditions.max_sessions,
            query_lease_seconds=conditions.lease_ms / 1000,
            drain_timeout_seconds=conditions.drain_timeout_ms / 1000,
            write_timeout_seconds=conditions.write_timeout_ms / 1000,
        )
        self._tokens = 0
        self.config = Config(limits=limits, streams=tuple(_rules(schedule)))
        if conditions.tokens:
            self.replace_token()

    @property
    def token(self) -> str | None:
        """The token that is valid now; None if none is needed."""
        return f"token-{self._tokens}" if self._tokens else None

    def replace_token(self) -> None:
        """Replaces the token of everybody."""
        self._tokens += 1
        everything = ("*/*",)
        token = Token(
            name="everybody",
            sha256=(token_digest(f"token-{self._tokens}"),),
            sources=everything,
            reads=everything,
            sinks=("*",),
            writes=("*",),
            pipelines=("*",),
        )
        self.config = self.config.model_copy(update={"tokens": (token,)})

    def pause(self, *streams: str) -> None:
        """Pauses these streams, and no others."""
        self.config = self.config.model_copy(update={"paused": Paused(streams=streams)})

    def source(self) -> ConfigSource:
        """Returns what a reload reads."""
        return ConfigSource(Path("gateway.toml"), lambda: self.config)


def _rules(schedule: Schedule) -> Iterator[StreamRule]:
    """Yields the declarations of the streams that several queries read: a gateway that restarts must know them."""
    for plan in schedule.sources:
        readers = schedule.readers(plan.name)
        if len(readers) > 1:
            yield StreamRule(pattern=f"{plan.name}/*", pipelines=tuple(f"pipeline-{reader}" for reader in readers))
