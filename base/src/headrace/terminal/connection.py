"""The options of every command that calls a gateway, and the error messages for failed calls."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from headrace.contract.limits import DEFAULT_GATEWAY
from headrace.contract.proxies import channel_options, through
from headrace.contract.settings import GATEWAY, TLS, TLS_CA, TLS_CERT, TLS_KEY, TOKEN, TOKEN_FILE, Setting
from headrace.contract.token_files import TokenFile, TokenFileError
from headrace.terminal.contexts import VARIABLE, load_contexts
from headrace.terminal.output import EXIT_INVALID, Failure
from headrace.terminal.program import as_typed

if TYPE_CHECKING:
    import grpc

CALL_TIMEOUT_S = 5.0

_Command = TypeVar("_Command", bound=Callable[..., Any])
_File = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True)
class Connection:
    """How to connect to a gateway. Uses TLS if `tls` is set, or if any certificate file is given.

    `context` is the name of its context; None if an option or a variable names the gateway, or by default.
    """

    gateway: str
    token: str | None = None
    tls: bool = False
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    context: str | None = None
    token_file: TokenFile | None = None

    @property
    def secret(self) -> str | None:
        """The token to send: from the file, as it is now, if there is one.

        Raises:
            TokenFileError: The file contains no token, and never did.
        """
        return self.token if self.token_file is None else self.token_file.token()

    @property
    def encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        return self.tls or self.tls_ca is not None or self.tls_cert is not None

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata to send with every call."""
        secret = self.secret
        return (("authorization", f"Bearer {secret}"),) if secret else ()

    def channel(self) -> "grpc.Channel":
        """Opens a channel to the gateway; the caller must close it."""
        import grpc

        # A command that watches a gateway finds it soon after it has come back.
        options = [
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_reconnect_backoff_ms", 1_000),
            *channel_options(self.gateway),
        ]
        if not self.encrypted:
            return grpc.insecure_channel(self.gateway, options)
        credentials = grpc.ssl_channel_credentials(_read(self.tls_ca), _read(self.tls_key), _read(self.tls_cert))
        return grpc.secure_channel(self.gateway, credentials, options)

    @contextmanager
    def failures(self, summary: str = "", *, of_request: bool = False) -> Iterator[None]:
        """Makes a call that fails within the block fail the command.

        Args:
            summary: The result of the command in JSON, such as "nothing has changed"; empty for the text of the failure.
            of_request: Whether the request itself is invalid if the gateway does not know what it names.

        Raises:
            Failure: A call has failed.
        """
        import grpc

        try:
            yield
        except grpc.RpcError as error:
            failure = self.failure_of_request(error) if of_request else self.failure(error)
            raise (failure.with_summary(summary) if summary else failure) from None

    def failure_of_request(self, error: "grpc.RpcError") -> Failure:
        """As `failure`, with the exit code for an invalid request if the gateway does not know what it names."""
        import grpc

        failure = self.failure(error)
        code, _ = _status(error)
        invalid = code in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT)
        return Failure(failure.message, EXIT_INVALID) if invalid else failure

    def failure(self, error: "grpc.RpcError") -> Failure:
        """Converts the error of a call to a one-line failure."""
        import grpc

        code, details = _status(error)
        where = f"the gateway at {self.gateway}"
        if details and _has_reason(error):
            # The gateway has answered: it is neither away nor slow.
            return Failure(details)
        if code is grpc.StatusCode.UNAVAILABLE:
            return Failure(_unreachable(self, details))
        if code is grpc.StatusCode.UNAUTHENTICATED:
            return Failure(f"{where} does not accept this call: {details}")
        if code is grpc.StatusCode.PERMISSION_DENIED:
            return Failure(f"{where} does not permit this: {details}")
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return Failure(f"the server at {self.gateway} is not a Headrace gateway, or is an older one")
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return Failure(f"{where} did not answer within {CALL_TIMEOUT_S:.0f} s{through(self.gateway)}")
        return Failure(details or f"{where} failed: {code.name if code else 'unknown'}")


def _status(error: "grpc.RpcError") -> "tuple[grpc.StatusCode | None, str]":
    """Returns the status code and details of an error, from a blocking or an asyncio call."""
    code = error.code() if hasattr(error, "code") else None
    details = error.details() if hasattr(error, "details") else None
    return code, details or ""


def _has_reason(error: "grpc.RpcError") -> bool:
    """Returns whether the gateway has given a reason of its own for the end of a call."""
    trailing: Any = error.trailing_metadata() if hasattr(error, "trailing_metadata") else None
    return any(key == "headrace-reason" for key, _ in trailing or ())


def _unreachable(connection: Connection, details: str) -> str:
    if proxied := through(connection.gateway):
        exempt = "or except the gateway with no_proxy"
        return f"cannot reach the gateway at {connection.gateway}{proxied}: check the proxy, {exempt} ({details})"
    if "onnection refused" in details:
        advice = as_typed("start a gateway with headrace gateway, or name another with --gateway")
        return f"nothing listens at {connection.gateway}: {advice}"
    if "CERTIFICATE_VERIFY_FAILED" in details:
        return f"the certificate of {connection.gateway} is not trusted: set --tls-ca to the authority that signed it ({details})"
    if "Hostname Verification" in details:
        advice = "call it by a name that its certificate contains, or add this one to its subjectAltName"
        return f"the certificate of the gateway at {connection.gateway} is for other names: {advice} ({details})"
    if "andshake" in details or "ssl" in details.lower():
        advice = "the TLS handshake failed: check --tls, --tls-ca, --tls-cert and --tls-key"
    elif connection.encrypted:
        advice = "is it a gateway, and does it speak TLS?"
    else:
        advice = "is it a gateway, and does it need TLS (--tls-ca)?"
    return f"cannot reach the gateway at {connection.gateway}: {advice} ({details})"


def _read(path: Path | None) -> bytes | None:
    return path.read_bytes() if path is not None else None


def connection_options(command: _Command) -> _Command:
    """As `own_connection_options`, with --context: a command of an operator calls the gateway of a context if none is named.

    Nothing of a context goes to any other gateway than its own. What variables of the environment say for another gateway does
    not go to the context's gateway, either: either the context counts, or the variables.
    """

    @own_connection_options
    @click.option(
        "--context",
        metavar="NAME",
        envvar=VARIABLE,
        show_envvar=True,
        help="Call the gateway of this context, instead of the one in use (headrace context).",
    )
    @functools.wraps(command)
    def with_context(*arguments: Any, connection: Connection, context: str | None, **options: Any) -> Any:
        return command(*arguments, connection=_of_context(connection, context), **options)

    return with_context  # type: ignore[return-value]


def _of_context(connection: Connection, context: str | None) -> Connection:
    """The connection to the gateway of the context that counts, if one does."""
    source = click.get_current_context().get_parameter_source
    asked = source("context") is ParameterSource.COMMANDLINE
    if source("gateway") is ParameterSource.COMMANDLINE:
        if asked:
            raise Failure("--gateway and --context exclude each other: name the gateway, or its context", EXIT_INVALID)
        return connection
    if source("gateway") is ParameterSource.ENVIRONMENT and context is None:
        return connection
    contexts = load_contexts()
    name = context if context is not None else contexts.used
    if name is None:
        return connection
    found = contexts.named(name)

    def given(option: str, otherwise: Any) -> Any:
        return getattr(connection, option) if source(option) is ParameterSource.COMMANDLINE else otherwise

    typed = ParameterSource.COMMANDLINE in (source("token"), source("token_file"))
    token, token_file = (connection.token, connection.token_file) if typed else (None, found.opened_token_file())
    files = {option: given(option, getattr(found, option)) for option in ("tls", "tls_ca", "tls_cert", "tls_key")}
    return Connection(found.gateway, token, **files, context=name, token_file=token_file)


def _option(setting: Setting, **attributes: Any) -> Callable[[_Command], _Command]:
    return click.option(setting.option, envvar=setting.variable, help=setting.description, **attributes)


token_file_option = _option(TOKEN_FILE, metavar="FILE", type=click.Path(path_type=Path), show_envvar=True)


def opened_token_file(path: Path | None) -> TokenFile | None:
    """Returns a token file that was read, None without one.

    Raises:
        Failure: It contains no token.
    """
    if path is None:
        return None
    file = TokenFile(path.absolute())
    try:
        file.token()
    except TokenFileError as error:
        raise Failure(f"--token-file: {error}", error.exit_code) from None
    return file


def own_connection_options(command: _Command) -> _Command:
    """Adds the options --gateway, --token, --token-file and --tls*; the command receives them as one argument, `connection`.

    For commands that run a part of a deployment, which no context of whoever is logged in may send elsewhere.
    """

    @_option(GATEWAY, metavar="HOST:PORT", default=DEFAULT_GATEWAY, show_default=True, show_envvar=True)
    @_option(TOKEN, metavar="TOKEN", show_envvar=True)
    @token_file_option
    @_option(TLS, is_flag=True)
    @_option(TLS_CA, type=_File)
    @_option(TLS_CERT, type=_File)
    @_option(TLS_KEY, type=_File)
    @functools.wraps(command)
    def with_connection(
        *arguments: Any,
        gateway: str,
        token: str | None,
        token_file: Path | None,
        tls: bool,
        tls_ca: Path | None,
        tls_cert: Path | None,
        tls_key: Path | None,
        **options: Any,
    ) -> Any:
        if (tls_cert is None) != (tls_key is None):
            raise Failure("--tls-cert and --tls-key go together: a certificate and its key", EXIT_INVALID)
        source = click.get_current_context().get_parameter_source
        if token_file is not None and source("token") is ParameterSource.COMMANDLINE:
            if source("token_file") is ParameterSource.COMMANDLINE:
                raise Failure("--token and --token-file exclude each other: give one of the two", EXIT_INVALID)
            token_file = None
        opened = opened_token_file(token_file)
        connection = Connection(gateway, token if opened is None else None, tls, tls_ca, tls_cert, tls_key, token_file=opened)
        return command(*arguments, connection=connection, **options)

    return with_connection  # type: ignore[return-value]
