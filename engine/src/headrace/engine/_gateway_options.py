"""What the options of the source and of the sink have in common: how to reach the gateway, and how values are read."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from headrace.engine._errors import OptionError
from headrace.engine._master import is_loopback, shares_loopback
from headrace.engine._units import parse_duration

DEFAULT_GATEWAY = "127.0.0.1:7433"
DEFAULT_GATEWAY_TIMEOUT_S = 300.0

NAMES = ("gateway", "token", "tlsCa", "tlsCert", "tlsKey", "gatewayTimeout", "loopbackGateway", "sharedCheckpoint")
_SECRET = {"token"}

_T = TypeVar("_T")
_D = TypeVar("_D")


@dataclass(frozen=True)
class Defaults:
    """What `register` found out in the driver, for options that are not given."""

    gateway: str = DEFAULT_GATEWAY
    token: str | None = field(default=None, repr=False)
    read_tasks: int = 1
    master: str = "local[*]"
    """Of the session."""


@dataclass(frozen=True, kw_only=True)
class GatewayOptions:
    """How to reach the gateway, and how long to wait for it."""

    gateway: str
    token: str | None = field(default=None, repr=False)
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    gateway_timeout_s: float = DEFAULT_GATEWAY_TIMEOUT_S
    shared_checkpoint: bool = False
    """Whether a checkpoint that looks like one on a local disk is on a mount that every machine has at the same path."""


def parse_gateway(values: Mapping[str, str], defaults: Defaults) -> GatewayOptions:
    """The options that concern the gateway.

    Raises:
        OptionError: one of them is not valid, or is of no use without another; or executors on other machines would look for
            the gateway where only the driver's machine has it.
    """
    tls = {name: parsed(values, name, _file, None) for name in ("tlsCa", "tlsCert", "tlsKey")}
    if (tls["tlsCert"] is None) != (tls["tlsKey"] is None):
        there, missing = ("tlsCert", "tlsKey") if tls["tlsCert"] else ("tlsKey", "tlsCert")
        raise OptionError(f"option {missing} is missing: {there} is given, and one is of no use without the other")
    gateway = parsed(values, "gateway", _address, None) or _default_address(defaults.gateway)
    reached_there = parsed(values, "loopbackGateway", boolean, False) or shares_loopback(defaults.master)
    if is_loopback(gateway) and not reached_there:
        raise OptionError(
            f"option gateway: at {gateway} each machine finds itself, and the executors of {defaults.master} run on other "
            "machines: give the address by which they reach the gateway (option gateway, --gateway, HEADRACE_GATEWAY), and have "
            "it listen there; where each of them does reach it at this one, say so with the option loopbackGateway=true"
        )
    return GatewayOptions(
        gateway=gateway,
        token=values.get("token") or defaults.token,
        tls_ca=tls["tlsCa"],
        tls_cert=tls["tlsCert"],
        tls_key=tls["tlsKey"],
        gateway_timeout_s=parsed(values, "gatewayTimeout", parse_duration, DEFAULT_GATEWAY_TIMEOUT_S),
        shared_checkpoint=parsed(values, "sharedCheckpoint", boolean, False),
    )


def spelled(given: Mapping[str, str], names: Sequence[str], own: Sequence[str] = ()) -> dict[str, str]:
    """What the user gave, by the options' own spelling of their names; `own` are known, too, and never suggested.

    Raises:
        OptionError: an option is unknown.
    """
    spelling = {name.lower(): name for name in names}
    hidden = {name.lower(): name for name in own}
    unknown = next((name for name in given if name.lower() not in spelling | hidden), None)
    if unknown is not None:
        close = difflib.get_close_matches(unknown.lower(), spelling, n=1)
        hint = f"did you mean {spelling[close[0]]}?" if close else f"the options are {', '.join(names)}"
        raise OptionError(f"unknown option {unknown!r}: {hint}")
    return {(spelling | hidden)[name.lower()]: value.strip() for name, value in given.items()}


def parsed(values: Mapping[str, str], name: str, parse_value: Callable[[str], _T], default: _D) -> _T | _D:
    """The value of an option.

    Raises:
        OptionError: it is not valid; the error names the option, the value and what to write instead.
    """
    text = values.get(name)
    if text is None:
        return default
    try:
        return parse_value(text)
    except (ValueError, OSError) as error:
        shown = "(not shown)" if name in _SECRET else repr(text)
        raise OptionError(f"option {name}: {shown} is not valid: {error}") from None


def fail_or(other: str) -> Callable[[str], bool]:
    """Reads `fail` as false and the other word as true."""

    def parse_word(text: str) -> bool:
        if text.lower() not in ("fail", other):
            raise ValueError(f"want fail or {other}")
        return text.lower() == other

    return parse_word


def boolean(text: str) -> bool:
    """The meaning of `true` and `false`.

    Raises:
        ValueError: it is neither.
    """
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


def _file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise ValueError("there is no such file")
    with path.open("rb"):
        return path
