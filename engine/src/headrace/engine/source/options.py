"""The options of `spark.readStream.format("headrace")`: names, defaults, validation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.contract.names import is_name, is_stream_pattern
from headrace.contract.units import parse_size
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
    parsed_options,
    seconds,
)

DEFAULT_INLINE_BYTES = 256 * 2**10
DEFAULT_STREAM_TIMEOUT_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Options(GatewayOptions):
    """The validated options of one source."""

    streams: tuple[str, ...]
    pipeline: str | None = None
    max_messages: int | None = None
    max_bytes: int | None = None
    fail_on_data_loss: bool = True
    stream_timeout_s: float = DEFAULT_STREAM_TIMEOUT_S
    accept_away: bool = False
    read_tasks: int = 1
    inline_bytes: int = DEFAULT_INLINE_BYTES
    decode: str | None = None
    """The format of the values, `json` or `avro`; None if they are bytes."""
    schema: str | None = None
    """Their schema: for JSON as DDL or the JSON of a Spark schema, for Avro an Avro schema."""
    registry: str | None = None
    """The address of the schema registry whose ids Avro values begin with; None if they begin with their record."""
    registry_options: str | None = None
    """Further settings of the registry's client, as JSON."""
    keep_errors: bool = False
    """Whether a value that cannot be decoded is null, beside its error, rather than the end of the query."""
    freeze: bool = False
    """Whether a field of a value that the schema lacks is an error, rather than ignored."""
    application: str | None = None
    """The application whose first steps run in the reading tasks; an internal option."""
    finish: bool | None = None
    """Whether an application's event time ends when all streams have ended; None for only with availableNow."""
    asks_for_present: bool = False
    """Whether the application needs to know when a batch was planned."""
    tick_s: float | None = None
    """After how much time quiet streams of an application need a batch without messages, in seconds; None for never."""
    interval_s: float = 0.0
    """The time between the starts of two micro-batches of the application, in seconds; 0 if one follows the other."""
    real_time: str | None = None
    """The path of the socket of the application's worker in real-time mode; None without it."""
    driver: str = ""
    """The id of the driver, if it sends heartbeats."""
    bootstraps: str | None = None
    """The tables that an application reads before the streams that meet them, as a document; None if there are none."""
    history: str | None = None
    """The history that an application reads first, as a document; None without one."""
    history_alone: bool = False
    """Whether the run ends with the history."""
    resume_at: str | None = None
    """The offset, as JSON, at which a rescaled checkpoint starts. The run that creates the checkpoint reads nothing."""


def _streams(text: str) -> tuple[str, ...]:
    example = 'for example .option("stream", "orders/*")'
    patterns = tuple(p.strip() for p in text.split(",") if p.strip())
    if not patterns:
        raise OptionError(f"option stream is missing: set the streams to read, {example}")
    for pattern in patterns:
        if not is_stream_pattern(pattern):
            raise OptionError(
                f"option stream: {pattern!r} is not a pattern source/partition; use letters, digits and ._-*, {example}"
            )
    return patterns


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError("want a whole number")
    return int(text)


def _at_least_one(parse_number: Callable[[str], int]) -> Callable[[str], int]:
    def parse_positive(text: str) -> int:
        number = parse_number(text)
        if not 1 <= number < 2**63:
            raise ValueError("want at least 1")
        return number

    return parse_positive


def _pipeline(text: str) -> str:
    if not is_name(text):
        raise ValueError("want 1 to 255 letters, digits and ._-")
    return text


def _format(text: str) -> str:
    if text.lower() not in ("json", "avro"):
        raise ValueError("want json or avro")
    return text.lower()


def _on_error(text: str) -> bool:
    if text.lower() in ("skip", "dead-letter", "dead_letter"):
        raise ValueError(
            "want fail or null: a read that Spark repeats would count or send values again. With null, a sink of Headrace skips "
            "them (onRefused) or writes them to deadLetters, exactly once; for other sinks, filter error IS NULL"
        )
    return fail_or("null")(text)


def _contract(text: str) -> bool:
    if text.lower() == "evolve":
        raise ValueError(
            "want discard or freeze: the query has the columns of schema from its start, and a read that Spark repeats "
            "would count further fields again. Add new fields to schema, or use an application, whose contract may evolve"
        )
    if text.lower() not in ("discard", "freeze"):
        raise ValueError("want discard or freeze")
    return text.lower() == "freeze"


_OWN: Mapping[str, Option] = {
    "stream": Option("streams", _streams),
    "pipeline": Option("pipeline", _pipeline),
    "maxMessagesPerTrigger": Option("max_messages", _at_least_one(_whole)),
    "maxBytesPerTrigger": Option("max_bytes", _at_least_one(parse_size)),
    "failOnDataLoss": Option("fail_on_data_loss", boolean),
    "streamTimeout": Option("stream_timeout_s", seconds),
    "onStreamAway": Option("accept_away", fail_or("accept")),
    "readTasks": Option("read_tasks", _at_least_one(_whole)),
    "inlineBytes": Option("inline_bytes", parse_size),
    "decode": Option("decode", _format),
    "schema": Option("schema"),
    "registry": Option("registry"),
    "registryOptions": Option("registry_options"),
    "onError": Option("keep_errors", _on_error),
    "contract": Option("freeze", _contract),
}
_INTERNAL: Mapping[str, Option] = {
    "application": Option("application"),
    "asksForPresent": Option("asks_for_present", boolean),
    "bootstraps": Option("bootstraps"),
    "finish": Option("finish", boolean),
    "history": Option("history"),
    "historyAlone": Option("history_alone", boolean),
    "interval": Option("interval_s", float),
    "tick": Option("tick_s", float),
    "realTime": Option("real_time"),
    "resumeAt": Option("resume_at"),
}
"""Options that Headrace sets when it starts an application."""
NAMES = ("stream", *GATEWAY_NAMES, *(name for name in _OWN if name != "stream"))


def parse(options: Mapping[str, str], defaults: Defaults) -> Options:
    """Parses and validates the options of a source.

    Raises:
        OptionError: An option is unknown, missing or invalid; the error names the option, the value and the remedy.
    """
    values = canonical(options, NAMES, tuple(_INTERNAL))
    of_defaults = {"read_tasks": defaults.read_tasks, "driver": defaults.driver}
    gateway = vars(parse_gateway(values, defaults))
    parsed = Options(**gateway, **{**of_defaults, **parsed_options({"stream": "", **values}, {**_OWN, **_INTERNAL})})
    _check_decode(parsed)
    return parsed


def _check_decode(options: Options) -> None:
    if options.decode is None:
        for name, is_set in (
            ("schema", options.schema is not None),
            ("onError", options.keep_errors),
            ("contract", options.freeze),
            ("registry", options.registry is not None),
        ):
            if is_set:
                raise OptionError(f"option {name} has no effect without the option decode: set decode to json or avro")
    elif options.registry is not None and options.decode != "avro":
        raise OptionError("option registry: only avro is read with a registry; remove it, or set decode to avro")
    elif options.registry is None and options.registry_options is not None:
        raise OptionError("option registryOptions has no effect without the option registry: set the registry's address")
    elif options.schema is None:
        example = '"id BIGINT, name STRING"' if options.decode == "json" else "an Avro schema"
        raise OptionError(f"option schema is missing: decode {options.decode} needs it, for example {example}")
    elif options.freeze and options.decode != "json":
        raise OptionError(
            "option contract: freeze has no effect on avro, whose records have the fields of their schema; remove it"
        )
