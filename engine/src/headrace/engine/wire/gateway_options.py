"""The options that source and sink share: how to reach the gateway, and how values are parsed."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from headrace.contract.addresses import leads_here
from headrace.contract.limits import DEFAULT_GATEWAY
from headrace.contract.settings import GATEWAY, TLS_CA, TLS_CERT, TLS_KEY, TOKEN, TOKEN_FILE
from headrace.contract.token_files import TokenFile, TokenFileError
from headrace.contract.units import UnitError, parse_duration
from headrace.engine._errors import OptionError
from headrace.engine.master import shares_loopback

DEFAULT_GATEWAY_TIMEOUT_S = 300.0

NAMES = (
    *(setting.spark_option for setting in (GATEWAY, TOKEN, TOKEN_FILE, TLS_CA, TLS_CERT, TLS_KEY)),
    *("gatewayTimeout", "loopbackGateway", "sharedCheckpoint"),
)
_SECRET = {"token"}

_T = TypeVar("_T")
_D = TypeVar("_D")


@dataclass(frozen=True)
class Defaults:
    """The defaults that `register` finds in the driver."""

    gateway: str = DEFAULT_GATEWAY
    token: str | None = field(default=None, repr=False)
    token_file: TokenFile | None = None
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    read_tasks: int = 1
    master: str = "local[*]"
    """The master of the session."""
    driver: str = ""
    """The id of the driver's process, which sends heartbeats for its queries; empty if it does not."""


@dataclass(frozen=True, kw_only=True)
class GatewayOptions:
    """How to reach the gateway, and how long, in seconds, to wait for it."""

    gateway: str
    token: str | None = field(default=None, repr=False)
    token_file: TokenFile | None = None
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    gateway_timeout_s: float = DEFAULT_GATEWAY_TIMEOUT_S
    shared_checkpoint: bool = False
    """Whether a checkpoint with a local path is on a mount that every machine has at the same path."""


def parse_gateway(values: Mapping[str, str], defaults: Defaults) -> GatewayOptions:
    """The options that concern the gateway.

    Raises:
        OptionError: An option is invalid, or requires another one; or the gateway has a loopback address, and executors run on
            other machines.
    """
    otherwise = {"tlsCa": defaults.tls_ca, "tlsCert": defaults.tls_cert, "tlsKey": defaults.tls_key}
    tls = {name: parsed(values, name, _file, default) for name, default in otherwise.items()}
    if (tls["tlsCert"] is None) != (tls["tlsKey"] is None):
        there, missing = ("tlsCert", "tlsKey") if tls["tlsCert"] else ("tlsKey", "tlsCert")
        raise OptionError(f"option {missing} is missing: {there} is set, and requires it")
    gateway = parsed(values, "gateway", _address, None) or _default_address(defaults.gateway)
    reached_there = parsed(values, "loopbackGateway", boolean, False) or shares_loopback(defaults.master)
    if leads_here(gateway) and not reached_there:
        raise OptionError(
            f"option gateway: {gateway} is a loopback address, and the executors of {defaults.master} run on other machines: "
            "use an address at which they can reach the gateway (option gateway, --gateway, HEADRACE_GATEWAY), and let the "
            "gateway listen there; if each machine does reach it at this address, set the option loopbackGateway=true"
        )
    token, token_file = _token(values, defaults)
    return GatewayOptions(
        gateway=gateway,
        token=token,
        token_file=token_file,
        tls_ca=tls["tlsCa"],
        tls_cert=tls["tlsCert"],
        tls_key=tls["tlsKey"],
        gateway_timeout_s=parsed(values, "gatewayTimeout", seconds, DEFAULT_GATEWAY_TIMEOUT_S),
        shared_checkpoint=parsed(values, "sharedCheckpoint", boolean, False),
    )


def _token(values: Mapping[str, str], defaults: Defaults) -> tuple[str | None, TokenFile | None]:
    """The token, or the file that contains it, which was read."""
    token, path = values.get("token"), values.get("tokenFile")
    if token and path:
        raise OptionError("options token and tokenFile exclude each other: give the token, or the file that contains it")
    if token:
        return token, None
    file = TokenFile(Path(path).absolute()) if path else defaults.token_file
    if file is None:
        return defaults.token, None
    try:
        # Executors on other machines, which do not have the file, use what is known here.
        file.token()
    except TokenFileError as error:
        raise OptionError(f"option tokenFile: {error}") from None
    return None, file


def canonical(options: Mapping[str, str], names: Sequence[str], own: Sequence[str] = ()) -> dict[str, str]:
    """The given options, under their canonical names: Spark's options are not case-sensitive.

    Args:
        options: The options as the user wrote them.
        names: The options that exist.
        own: Internal options, which error messages do not suggest.

    Raises:
        OptionError: An option is unknown.
    """
    spelling = {name.lower(): name for name in names}
    hidden = {name.lower(): name for name in own}
    unknown = next((name for name in options if name.lower() not in spelling | hidden), None)
    if unknown is not None:
        close = difflib.get_close_matches(unknown.lower(), spelling, n=1)
        hint = f"did you mean {spelling[close[0]]}?" if close else f"the options are {', '.join(names)}"
        raise OptionError(f"unknown option {unknown!r}: {hint}")
    return {(spelling | hidden)[name.lower()]: value.strip() for name, value in options.items()}


def parsed(values: Mapping[str, str], name: str, parse_value: Callable[[str], _T], default: _D) -> _T | _D:
    """The parsed value of an option; `default` if it is not set.

    Raises:
        OptionError: The value is invalid; the error names the option, the value and what is expected.
    """
    text = values.get(name)
    if text is None:
        return default
    try:
        return parse_value(text)
    except UnitError as error:
        raise OptionError(f"option {name}: {error}") from None
    except (ValueError, OSError) as error:
        shown = "(not shown)" if name in _SECRET else repr(text)
        raise OptionError(f"option {name}: {shown} is not valid: {error}") from None


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a source or a sink.

    Attributes:
        field: The field of the validated options that it sets; without it, the field keeps its default.
        parse: Parses its value.
    """

    field: str
    parse: Callable[[str], object] = str


def parsed_options(values: Mapping[str, str], options: Mapping[str, Option]) -> dict[str, Any]:
    """The parsed values of the options that are set, by their fields.

    Raises:
        OptionError: A value is invalid, as in `parsed`.
    """
    return {option.field: parsed(values, name, option.parse, None) for name, option in options.items() if name in values}


def fail_or(other: str) -> Callable[[str], bool]:
    """A parser for which `fail` is false and the other word is true."""

    def parse_word(text: str) -> bool:
        if text.lower() not in ("fail", other):
            raise ValueError(f"want fail or {other}")
        return text.lower() == other

    return parse_word


def boolean(text: str) -> bool:
    """Parses `true` and `false`.

    Raises:
        ValueError: The text is neither.
    """
    if text.lower() not in ("true", "false"):
        raise ValueError("want true or false")
    return text.lower() == "true"


def seconds(text: str) -> float:
    """Parses a duration with its unit; the result is in seconds.

    Raises:
        UnitError: The text is not a duration.
    """
    return parse_duration(text, unit_required=True).total_seconds()


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
