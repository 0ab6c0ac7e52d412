"""The options of `spark.readStream.format("headrace")`: names, defaults, validation."""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from headrace.engine._errors import OptionError
from headrace.engine._units import parse_bytes, parse_duration

DEFAULT_GATEWAY = "127.0.0.1:7433"
DEFAULT_GATEWAY_TIMEOUT_S = 300.0
DEFAULT_INLINE_BYTES = 256 * 2**10

NAMES = (
    "gateway",
    "stream",
    "pipeline",
    "token",
    "tlsCa",
    "tlsCert",
    "tlsKey",
    "maxMessagesPerTrigger",
    "maxBytesPerTrigger",
    "failOnDataLoss",
    "gatewayTimeout",
    "readTasks",
    "inlineBytes",
)
_SPELLING = {name.lower(): name for name in NAMES}
_SECRET = {"token"}
_PATTERN = re.compile(r"[A-Za-z0-9._*-]+/[A-Za-z0-9._*-]+")
_PIPELINE = re.compile(r"[A-Za-z0-9._-]{1,255}")

_T = TypeVar("_T")
_D = TypeVar("_D")


@dataclass(frozen=True)
class Defaults:
    """What `register` found out in the driver, for options that are not given."""

    gateway: str = DEFAULT_GATEWAY
    token: str | None = field(default=None, repr=False)
    read_tasks: int = 1


@dataclass(frozen=True)
class Options:
    """The validated options of one source."""

    gateway: str
    streams: tuple[str, ...]
    pipeline: str | None = None
    token: str | None = field(default=None, repr=False)
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    max_messages: int | None = None
    max_bytes: int | None = None
    fail_on_data_loss: bool = True
    gateway_timeout_s: float = DEFAULT_GATEWAY_TIMEOUT_S
    read_tasks: int = 1
    inline_bytes: int = DEFAULT_INLINE_BYTES


def parse(given: Mapping[str, str], defaults: Defaults) -> Options:
    """Validates what the user gave.

    Raises:
        OptionError: an option is unknown, missing or not valid; it names the option, the value and what to do.
    """
    values = {_spell(name): value.strip() for name, value in given.items()}
    tls = {name: _parsed(values, name, _file, None) for name in ("tlsCa", "tlsCert", "tlsKey")}
    if (tls["tlsCert"] is None) != (tls["tlsKey"] is None):
        there, missing = ("tlsCert", "tlsKey") if tls["tlsCert"] else ("tlsKey", "tlsCert")
        raise OptionError(f"option {missing} is missing: {there} is given, and one is of no use without the other")
    return Options(
        gateway=_parsed(values, "gateway", _address, None) or _default_address(defaults.gateway),
        streams=_streams(values),
        pipeline=_parsed(values, "pipeline", _pipeline, None),
        token=values.get("token") or defaults.token,
        tls_ca=tls["tlsCa"],
        tls_cert=tls["tlsCert"],
        tls_key=tls["tlsKey"],
        max_messages=_parsed(values, "maxMessagesPerTrigger", _at_least_one(_whole), None),
        max_bytes=_parsed(values, "maxBytesPerTrigger", _at_least_one(parse_bytes), None),
        fail_on_data_loss=_parsed(values, "failOnDataLoss", _boolean, True),
        gateway_timeout_s=_parsed(values, "gatewayTimeout", parse_duration, DEFAULT_GATEWAY_TIMEOUT_S),
        read_tasks=_parsed(values, "readTasks", _at_least_one(_whole), defaults.read_tasks),
        inline_bytes=_parsed(values, "inlineBytes", parse_bytes, DEFAULT_INLINE_BYTES),
    )


def _spell(name: str) -> str:
    """The option's own spelling of a name in any case."""
    known = _SPELLING.get(name.lower())
    if known is None:
        close = difflib.get_close_matches(name.lower(), _SPELLING, n=1)
        hint = f"did you mean {_SPELLING[close[0]]}?" if close else f"the options are {', '.join(NAMES)}"
        raise OptionError(f"unknown option {name!r}: {hint}")
    return known


def _streams(values: Mapping[str, str]) -> tuple[str, ...]:
    example = 'for instance .option("stream", "orders/*")'
    patterns = tuple(p.strip() for p in values.get("stream", "").split(",") if p.strip())
    if not patterns:
        raise OptionError(f"option stream is missing: say which streams to read, {example}")
    for pattern in patterns:
        if not _PATTERN.fullmatch(pattern):
            raise OptionError(
                f"option stream: {pattern!r} is no pattern of source/partition; use letters, digits and ._-*, {example}"
            )
    return patterns


def _parsed(values: Mapping[str, str], name: str, parse_value: Callable[[str], _T], default: _D) -> _T | _D:
    text = values.get(name)
    if text is None:
        return default
    try:
        return parse_value(text)
    except (ValueError, OSError) as error:
        shown = "(not shown)" if name in _SECRET else repr(text)
        raise OptionError(f"option {name}: {shown} is not valid: {error}") from None


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


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("want true or false")
    return text.lower() == "true"


def _address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not host or not colon or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError("want host:port, for instance 127.0.0.1:7433")
    return text


def _default_address(text: str) -> str:
    try:
        return _address(text)
    except ValueError as error:
        raise OptionError(f"HEADRACE_GATEWAY: {text!r} is not valid: {error}") from None


def _pipeline(text: str) -> str:
    if not _PIPELINE.fullmatch(text):
        raise ValueError("want 1 to 255 letters, digits and ._-")
    return text


def _file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise ValueError("there is no such file")
    with path.open("rb"):
        return path
