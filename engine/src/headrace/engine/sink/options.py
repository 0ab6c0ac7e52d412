"""The options of `df.writeStream.format("headrace")`: names, defaults, validation."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.contract.names import is_name
from headrace.engine._errors import OptionError
from headrace.engine.wire.gateway_options import NAMES as GATEWAY_NAMES
from headrace.engine.wire.gateway_options import (
    Defaults,
    GatewayOptions,
    Option,
    boolean,
    canonical,
    fail_or,
    parse_gateway,
    parsed,
    parsed_options,
    seconds,
)

DEFAULT_SINK_TIMEOUT_S = 60.0
RUN_NUMBER = "spark.sql.headrace.run"
"""The setting that passes the number of the run to a query's tasks."""
_SPARKS_OWN = {
    "checkpointlocation",
    "path",
    "queryname",
    "asyncprogresstrackingenabled",
    "asyncprogresstrackingcheckpointintervalms",
}
"""Options that Spark passes to every writer."""


@dataclass(frozen=True, kw_only=True)
class SinkOptions(GatewayOptions):
    """The validated options of one sink."""

    sink: str
    """Empty for an application without sinks."""
    sink_timeout_s: float = DEFAULT_SINK_TIMEOUT_S
    accept_older: bool = False
    accept_lost: bool = False
    skip_refused: bool = False
    dead_letters: str | None = None
    sync_to_disk: bool = False
    """Whether an application's states survive a power loss."""
    application: str | None = None
    """The application whose results are written; an internal option."""
    further: tuple[str, ...] = ()
    """The other sinks that an application writes to."""
    failed: str | None = None
    """The sink for dead letters: of an application, also for messages whose functions raise; an internal option."""
    run: str | None = None
    """Identifies the start of the application; an internal option."""

    @property
    def sinks(self) -> tuple[str, ...]:
        """All sinks that the query writes to."""
        return (*self._own, *((self.dead_letters,) if self.dead_letters is not None else ()))

    @property
    def _own(self) -> tuple[str, ...]:
        """The sinks that the query names; none if an application writes to lakes only."""
        return (self.sink, *self.further) if self.sink else ()

    @property
    def awaited(self) -> tuple[str, ...]:
        """The sinks that must be available before a batch is planned; a dead-letter sink need not be."""
        return tuple(name for name in self._own if name != self.failed)

    def for_sink(self, sink: str) -> "SinkOptions":
        """The options for writing to one of an application's sinks."""
        return replace(self, sink=sink, further=())

    def for_dead_letters(self) -> "SinkOptions | None":
        """The options for writing rejected messages; None if there is no dead-letter sink."""
        dead = self.dead_letters
        return None if dead is None else replace(self, sink=dead, failed=dead, dead_letters=None)


_OWN: Mapping[str, Option] = {
    "sinkTimeout": Option("sink_timeout_s", seconds),
    "onOlderCheckpoint": Option("accept_older", fail_or("accept")),
    "onSinkLoss": Option("accept_lost", fail_or("accept")),
    "onRefused": Option("skip_refused", fail_or("skip")),
    "syncToDisk": Option("sync_to_disk", boolean),
}
_INTERNAL: Mapping[str, Option] = {name: Option(name) for name in ("application", "failed", "run")}
"""Options that Headrace sets when it starts an application."""
NAMES = ("sink", *GATEWAY_NAMES, "deadLetters", *_OWN)


def parse_sink(options: Mapping[str, str], defaults: Defaults) -> SinkOptions:
    """Parses and validates the options of a sink.

    Raises:
        OptionError: An option is unknown, missing or invalid; the error names the option, the value and the remedy.
    """
    given = {name: value for name, value in options.items() if name.lower() not in _SPARKS_OWN}
    values = canonical(given, NAMES, tuple(_INTERNAL))
    application = values.get("application")
    sinks = parsed(values, "sink", _sink if application is None else _sinks, None)
    if sinks is None:
        raise OptionError('option sink is missing: set the sink to write to, for example .option("sink", "alerts")')
    sink, *further = sinks or ("",)
    (dead_letters,) = parsed(values, "deadLetters", _sink, (None,))
    if dead_letters == sink:
        raise OptionError(f"option deadLetters: {sink!r} is the sink that rejects the messages; name another one")
    if dead_letters is not None and "onRefused" in values:
        raise OptionError("options onRefused and deadLetters exclude each other: remove one of them")
    if "syncToDisk" in values and application is None:
        raise OptionError("option syncToDisk: only the states of an application can be synced; remove the option")
    gateway = vars(parse_gateway(values, defaults))
    own = parsed_options(values, {**_OWN, **_INTERNAL})
    return SinkOptions(**gateway, sink=sink, further=tuple(further), dead_letters=dead_letters, **own)


def _sink(text: str) -> tuple[str, ...]:
    if not is_name(text):
        raise ValueError("want 1 to 255 letters, digits and ._-")
    return (text,)


def _sinks(text: str) -> tuple[str, ...]:
    return tuple(name for one in text.split(",") for name in _sink(one.strip())) if text else ()
