"""What can be wrong with a broker, told so that it can be mended.

RabbitMQError
├── Unavailable       it is away, or the connection or its channel broke: worth another attempt
├── Denied            it refuses who asks, or what is asked for, and would again
└── QueueMissing      there is no such queue
"""

import ssl

from pika.exceptions import (
    AuthenticationError,
    ChannelClosed,
    ConnectionClosed,
    IncompatibleProtocolError,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
    StreamLostError,
)

from headrace.sdk import HeadraceError

_ACCESS_REFUSED, _NOT_FOUND, _RESOURCE_LOCKED, _PRECONDITION_FAILED, _NOT_ALLOWED, _NOT_IMPLEMENTED = 403, 404, 405, 406, 530, 540


class RabbitMQError(HeadraceError):
    """The root of what the RabbitMQ connectors raise."""


class Unavailable(RabbitMQError):
    """The broker is away, or the connection or its channel broke. The connectors try again by themselves."""


class Denied(RabbitMQError):
    """The broker refuses who asks, or what is asked for, and would again."""

    exit_code = 2


class QueueMissing(RabbitMQError):
    """There is no such queue."""


def explain(error: BaseException, broker: str) -> RabbitMQError:
    """What an exception of pika means.

    Args:
        error: Why there is no connection, or none any more, or no channel.
        broker: Where the broker is, without credentials.
    """
    if isinstance(error, RabbitMQError):
        return error
    cause = _first_cause(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return Denied(f"{broker}: its certificate is not trusted: {cause.verify_message}; name who signed it with tls_ca")
    if isinstance(cause, AuthenticationError | ProbableAuthenticationError) and str(_ACCESS_REFUSED) in str(cause):
        return Denied(f"{broker}: the user or the password in the URL is wrong")
    if isinstance(cause, ProbableAccessDeniedError) and str(_NOT_ALLOWED) in str(cause):
        return Denied(f"{broker}: there is no such virtual host, or its user may not use it")
    if isinstance(cause, ChannelClosed):
        return _explain_channel(cause.reply_code, cause.reply_text, broker)
    if isinstance(cause, ConnectionClosed):
        return Unavailable(f"{broker}: {cause.reply_text}")
    if isinstance(cause, IncompatibleProtocolError):
        return Unavailable(f"{broker} ends connections without a word: is this its port, and does it want TLS or a certificate?")
    return Unavailable(
        f"{broker}: {cause}" if isinstance(cause, StreamLostError) else f"{broker}: {type(cause).__name__}: {cause}"
    )


def _explain_channel(code: int, text: str, broker: str) -> RabbitMQError:
    """What it means that the broker has closed a channel."""
    said = f"{broker}: {text}"
    if code == _NOT_FOUND and "no queue" in text:
        return QueueMissing(said)
    if code == _NOT_FOUND and "no exchange" in text:
        return Denied(said)
    if code == _ACCESS_REFUSED and "exclusive use" not in text:
        return Denied(said)
    if code == _PRECONDITION_FAILED and "invalid arg" in text:
        return Denied(said)
    # The rest passes: a queue whose node is down, one that somebody else has to himself, acknowledgements that come too late.
    return Denied(said) if code in (_RESOURCE_LOCKED, _NOT_IMPLEMENTED) else Unavailable(said)


def _first_cause(error: BaseException) -> BaseException:
    """The exception that pika's own ones are wrapped around."""
    while True:
        inner = getattr(error, "exceptions", None) or [getattr(error, "exception", None), *error.args]
        found = next((one for one in reversed(inner) if isinstance(one, BaseException)), None)
        if found is None:
            return error
        error = found
