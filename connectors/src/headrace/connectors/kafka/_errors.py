"""Translates the errors of kafka-python into errors that state what is wrong, where, and what to do."""

import socket
import ssl
from collections.abc import Callable, Sequence
from typing import TypeVar

from kafka import errors

from headrace.connectors.kafka._connection import KafkaConnection
from headrace.connectors.kafka.token_endpoint import NoToken, TokenAway, TokenRefused
from headrace.sdk import HeadraceError

C = TypeVar("C")
_LIBRARY = "kafka-python"
_PROBE_S = 3.0
# ApiVersions, version 0, correlation id 1, no client id: every broker answers it, even before authentication.
_PROBE = bytes.fromhex("0000000a 0012 0000 00000001 ffff")


class KafkaFailed(HeadraceError):
    """The cluster rejects a request of the connector permanently. The message states what to do."""


class KafkaAway(HeadraceError):
    """The cluster cannot be reached, or cannot answer now. A retry may help."""


class KafkaUntrusted(KafkaAway):
    """TLS, or the login with a token, fails with a cluster that was reached before: what one side presents was replaced.

    Another client, which reads the TLS files again, or takes another token, may succeed.
    """


def untrusted(connection: KafkaConnection, library: str, text: str) -> HeadraceError:
    """Returns the error if TLS fails: `KafkaUntrusted` if this client library has reached the cluster, or else `KafkaFailed`."""
    return KafkaUntrusted(text) if connection.was_reached(library) else KafkaFailed(text)


def login_refused(connection: KafkaConnection, library: str, reason: str) -> HeadraceError:
    """Returns the error if brokers reject a login: a token expires, or is revoked, and the next login takes another one."""
    where = f"Kafka at {connection.servers}"
    if (tokens := connection.tokens()) is None:
        user = f"user {connection.username!r}" if connection.username else "this client"
        check = "check username, password and sasl_mechanism" if connection.username else reason
        return KafkaFailed(f"{where} rejects {user} with {connection.sasl_mechanism}: {check}")
    tokens.forget()
    trouble = tokens.trouble()
    return untrusted(
        connection, library, f"{where} rejects the token of OAUTHBEARER: {reason}{f'; {trouble}' if trouble else ''}"
    )


def translate(error: BaseException, connection: KafkaConnection, library: str = _LIBRARY) -> HeadraceError:
    """Translates an error of a client library: to `KafkaAway` if a retry may help, or else to `KafkaFailed`."""
    if isinstance(error, HeadraceError):
        return error
    where = f"Kafka at {connection.servers}"
    match error:
        case TokenRefused():
            return KafkaFailed(f"no token for {where}: {error.args[0]}")
        case NoToken():
            return untrusted(connection, library, f"no token for {where}: {error.args[0]}")
        case TokenAway():
            return KafkaAway(f"no token for {where}: {error.args[0]}")
        case errors.SaslAuthenticationFailedError():
            return login_refused(connection, _LIBRARY, str(error.args[0] if error.args else error))
        case errors.IllegalSaslStateError():
            # A login that lacked its token, or was cut, began on this connection; brokers accept no second one there.
            return KafkaAway(f"{where}: a login was left unfinished, and another connection logs in anew")
        case errors.UnsupportedSaslMechanismError():
            return KafkaFailed(f"{where} does not offer {connection.sasl_mechanism}: {error.args[0] if error.args else error}")
        case errors.TopicAuthorizationFailedError():
            return KafkaFailed(
                f"{where} does not permit {_topics(error)} to {_user(connection)}; grant READ, or WRITE for a sink"
            )
        case errors.GroupAuthorizationFailedError():
            return KafkaFailed(f"{where} does not permit the group to {_user(connection)}; grant READ on it, or remove group")
        case errors.TransactionalIdAuthorizationFailedError():
            return KafkaFailed(f"{where} does not permit the transactional id to {_user(connection)}; grant WRITE on it")
        case errors.AuthorizationError():
            return KafkaFailed(f"{where} does not permit this to {_user(connection)}: {error}")
        case errors.CorruptRecordError() | errors.UnsupportedCodecError():
            return KafkaFailed(f"{where}: {error.args[0]}")
        case errors.KafkaConnectionError() | errors.KafkaTimeoutError() | errors.NodeNotReadyError():
            return KafkaAway(f"{where} cannot be reached: {error}")
        case errors.RetriableError():
            return KafkaAway(f"{where} cannot process the request now: {error}")
        case errors.KafkaError():
            return KafkaFailed(f"{where}: {error}")
        case OSError():
            return untrusted(connection, _LIBRARY, f"{where}: the TLS files cannot be used: {type(error).__name__}: {error}")
        case _:
            return KafkaFailed(f"{where}: {type(error).__name__}: {error}")


def connect(make: Callable[[], C], connection: KafkaConnection) -> C:
    """Creates a client, or determines why it cannot connect: kafka-python reports only that it tried for some seconds.

    Raises:
        KafkaAway: No broker can be reached.
        KafkaFailed: The brokers reject this client.
    """
    try:
        if (tokens := connection.tokens()) is not None:
            tokens.token()  # a client that has none tries for some seconds, and tells another reason
        return _reached(make, connection)
    except errors.KafkaTimeoutError as error:
        problem = _unreachable(connection)
        if isinstance(problem, KafkaAway):
            raise problem from error
    except (errors.KafkaError, OSError) as error:
        raise translate(error, connection) from error
    # The brokers answer: if they have just started, this succeeds; if they reject this client, they will do so again.
    try:
        return _reached(make, connection)
    except (errors.KafkaError, OSError) as error:
        raise problem from error


def _reached(make: Callable[[], C], connection: KafkaConnection) -> C:
    client = make()
    connection.note_reached(_LIBRARY)
    return client


def why_unreachable(connection: KafkaConnection) -> str:
    """Returns why no initial broker of a cluster can be used now; empty if one answers. Takes some seconds at most."""
    tokens = connection.tokens()
    problems = []
    for server in connection.bootstrap_servers:
        try:
            if _answers(server, connection):
                return tokens.trouble() if tokens is not None else ""
            problems.append(f"{server} does not answer")
        except OSError as error:
            problems.append(f"{server}: {error.strerror or error}")
    return _no_broker(problems)


def _unreachable(connection: KafkaConnection) -> HeadraceError:
    """Determines why no broker of a cluster can be reached, as far as the client can tell."""
    problems = []
    for server in connection.bootstrap_servers:
        try:
            answers = _answers(server, connection)
        except ssl.SSLCertVerificationError as error:
            why = f"{error.verify_message}; set tls_ca to the authority that signed it"
            return untrusted(connection, _LIBRARY, f"the certificate of {server} is not trusted: {why}")
        except OSError as error:
            problems.append(f"{server}: {error.strerror or error}")
            continue
        if answers and not connection.sasl_mechanism:
            return KafkaFailed(f"{server} requires authentication: set sasl_mechanism, username and password")
        if answers:
            problems.append(f"{server} did not answer in time")
        else:
            certificate = "" if connection.tls_certificate else " and no certificate"
            tried = f"with TLS{certificate}" if connection.tls else "without TLS"
            problems.append(f"{server} does not answer {tried}; is that what it requires?")
    return KafkaAway(_no_broker(problems))


def _no_broker(problems: Sequence[str]) -> str:
    return f"no broker can be reached: {'; '.join(problems)}"


def _answers(server: str, connection: KafkaConnection) -> bool:
    """Returns whether a broker answers. Raises OSError if nothing listens there, or TLS fails."""
    host, _, port = server.rpartition(":")
    host = host.strip("[]")
    with socket.create_connection((host, int(port)), timeout=_PROBE_S) as plain:
        if not connection.tls:
            return _answers_probe(plain)
        context = ssl.create_default_context(cafile=connection.tls_ca)
        if connection.tls_certificate:
            password = connection.tls_key_password.get_secret_value() if connection.tls_key_password else None
            context.load_cert_chain(connection.tls_certificate, connection.tls_key, password)
        with context.wrap_socket(plain, server_hostname=host) as encrypted:
            return _answers_probe(encrypted)


def _answers_probe(stream: socket.socket) -> bool:
    """Returns whether the server answers a Kafka request."""
    try:
        stream.sendall(_PROBE)
        # The length of the answer, and the correlation id of the request.
        answer = stream.recv(8, socket.MSG_WAITALL) if not isinstance(stream, ssl.SSLSocket) else stream.recv(8)
    except OSError:
        return False
    return answer[4:8] == b"\x00\x00\x00\x01"


def _topics(error: errors.TopicAuthorizationFailedError) -> str:
    """Returns the topics that an error names."""
    names = error.args[0] if error.args else ()
    return f"topic {', '.join(names)}" if isinstance(names, set | list | tuple) and names else "the topic"


def _user(connection: KafkaConnection) -> str:
    """Returns the principal of this client."""
    return f"user {connection.username}" if connection.username else "unauthenticated clients"
