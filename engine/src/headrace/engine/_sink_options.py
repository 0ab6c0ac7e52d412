"""The options of `df.writeStream.format("headrace")`: names, defaults, validation."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.engine._errors import OptionError
from headrace.engine._gateway_options import NAMES as GATEWAY_NAMES
from headrace.engine._gateway_options import Defaults, GatewayOptions, fail_or, parse_gateway, parsed, spelled
from headrace.engine._units import parse_duration

NAMES = ("sink", *GATEWAY_NAMES, "sinkTimeout", "onOlderCheckpoint", "onSinkLoss", "onRefused", "deadLetters")
OWN_NAMES = ("application", "failed")
"""What Headrace sets itself where it starts an application."""
DEFAULT_SINK_TIMEOUT_S = 60.0
RUN_NUMBER = "spark.sql.headrace.run"
"""The setting of a query by which its tasks know the number of their run."""
_SPARKS_OWN = {
    "checkpointlocation",
    "path",
    "queryname",
    "asyncprogresstrackingenabled",
    "asyncprogresstrackingcheckpointintervalms",
}
"""What Spark hands to every writer."""
_SINK = re.compile(r"[A-Za-z0-9._-]{1,255}")


@dataclass(frozen=True, kw_only=True)
class SinkOptions(GatewayOptions):
    """The validated options of one sink."""

    sink: str
    sink_timeout_s: float = DEFAULT_SINK_TIMEOUT_S
    accept_older: bool = False
    accept_lost: bool = False
    skip_refused: bool = False
    dead_letters: str | None = None
    application: str | None = None
    """The application whose results are written; set where one is started, not by users."""
    further: tuple[str, ...] = ()
    """The sinks that an application writes to beside `sink`."""
    failed: str | None = None
    """The sink that an application hands messages to whose functions raise; set where one is started, not by users."""

    @property
    def sinks(self) -> tuple[str, ...]:
        """Every sink that the query writes to."""
        return (self.sink, *self.further, *((self.dead_letters,) if self.dead_letters is not None else ()))

    @property
    def awaited(self) -> tuple[str, ...]:
        """The sinks without which no batch is planned: a sink for dead letters may be away until there are any."""
        return tuple(name for name in (self.sink, *self.further) if name != self.failed)

    def for_sink(self, sink: str) -> "SinkOptions":
        """The options with which one of an application's sinks is written."""
        return replace(self, sink=sink, further=())

    def for_dead_letters(self) -> "SinkOptions | None":
        """The options with which refused messages are written; None where there is no sink for them."""
        return None if self.dead_letters is None else replace(self, sink=self.dead_letters, dead_letters=None)


def parse_sink(given: Mapping[str, str], defaults: Defaults) -> SinkOptions:
    """Validates what the user gave.

    Raises:
        OptionError: an option is unknown, missing or not valid; it names the option, the value and what to do.
    """
    values = spelled({name: value for name, value in given.items() if name.lower() not in _SPARKS_OWN}, NAMES, OWN_NAMES)
    application = values.get("application")
    sinks = parsed(values, "sink", _sink if application is None else _sinks, None)
    if sinks is None:
        raise OptionError('option sink is missing: say which sink to write to, for instance .option("sink", "alerts")')
    sink, *further = sinks
    (dead_letters,) = parsed(values, "deadLetters", _sink, (None,))
    if dead_letters == sink:
        raise OptionError(f"option deadLetters: {sink!r} is the sink itself, and it is what refuses them; name another one")
    if dead_letters is not None and "onRefused" in values:
        raise OptionError("option onRefused is of no use with deadLetters: refused messages go there; remove one of the two")
    return SinkOptions(
        **vars(parse_gateway(values, defaults)),
        sink=sink,
        sink_timeout_s=parsed(values, "sinkTimeout", parse_duration, DEFAULT_SINK_TIMEOUT_S),
        accept_older=parsed(values, "onOlderCheckpoint", fail_or("accept"), False),
        accept_lost=parsed(values, "onSinkLoss", fail_or("accept"), False),
        skip_refused=parsed(values, "onRefused", fail_or("skip"), False),
        dead_letters=dead_letters,
        application=application,
        failed=values.get("failed"),
        further=tuple(further),
    )


def _sink(text: str) -> tuple[str, ...]:
    if not _SINK.fullmatch(text):
        raise ValueError("want 1 to 255 letters, digits and ._-")
    return (text,)


def _sinks(text: str) -> tuple[str, ...]:
    return tuple(name for one in text.split(",") for name in _sink(one.strip()))
