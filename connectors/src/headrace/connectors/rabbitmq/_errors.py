"""Errors of the RabbitMQ connectors. Each states what is wrong and what to do.

RabbitMQError
├── Unavailable       the broker is unavailable, or the connection or its channel broke: a retry may help
│   └── Rejected      the broker closed the channel or the connection because of what it received
├── Denied            the broker rejects the client or the request permanently
│   └── Untrusted     the certificates of both sides do not fit together
└── QueueMissing      the queue does not exist
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
_FRAME_ERROR, _SYNTAX_ERROR = 501, 502
_OF_CONTENT = (_PRECONDITION_FAILED, _FRAME_ERROR, _SYNTAX_ERROR)


class RabbitMQError(HeadraceError):
    """The base class of the errors of the RabbitMQ connectors."""


class Unavailable(RabbitMQError):
    """The broker is unavailable, or the connection or its channel broke. The connectors retry automatically."""


class Rejected(Unavailable):
    """The broker closed the channel or the connection because of what it received, such as a message that it does not allow."""


class Denied(RabbitMQError):
    """The broker rejects the client or the request permanently."""

    exit_code = 2


class Untrusted(Denied):
    """The certificate of the broker is not trusted, or the client's TLS files cannot be used."""


class QueueMissing(RabbitMQError):
    """The queue does not exist."""


def explain(error: BaseException, broker: str) -> RabbitMQError:
    """Translates an exception of pika.

    Args:
        error: The cause of a failed or lost connection or channel.
        broker: The address of the broker, without credentials.
    """
    if isinstance(error, RabbitMQError):
        return error
    cause = _first_cause(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return Untrusted(
            f"{broker}: its certificate is not trusted: {cause.verify_message}; set tls_ca to the authority that signed it"
        )
    if isinstance(cause, AuthenticationError | ProbableAuthenticationError) and str(_ACCESS_REFUSED) in str(cause):
        return Denied(f"{broker}: the user or the password in the URL is wrong")
    if isinstance(cause, ProbableAccessDeniedError) and str(_NOT_ALLOWED) in str(cause):
        return Denied(f"{broker}: the virtual host does not exist, or the user may not use it")
    if isinstance(cause, ChannelClosed):
        return _explain_channel(cause.reply_code, cause.reply_text, broker)
    if isinstance(cause, ConnectionClosed):
        kind = Rejected if cause.reply_code in _OF_CONTENT else Unavailable
        return kind(f"{broker}: {cause.reply_text}")
    if isinstance(cause, IncompatibleProtocolError):
        return Unavailable(
            f"{broker} closes connections without an error: is this the right port, and does it require TLS or a certificate?"
        )
    return Unavailable(
        f"{broker}: {cause}" if isinstance(cause, StreamLostError) else f"{broker}: {type(cause).__name__}: {cause}"
    )


def _explain_channel(code: int, text: str, broker: str) -> RabbitMQError:
    """Translates the reason for which the broker closed a channel."""
    said = f"{broker}: {text}"
    if code == _NOT_FOUND and "no queue" in text:
        return QueueMissing(said)
    if code == _NOT_FOUND and "no exchange" in text:
        return Denied(said)
    if code == _ACCESS_REFUSED and "exclusive use" not in text:
        return Denied(said)
    if code == _PRECONDITION_FAILED and "invalid arg" in text:
        return Denied(said)
    if code in _OF_CONTENT:
        return Rejected(said)
    # Other errors are temporary: a queue whose node is down, an exclusive consumer, acknowledgements that are too late.
    return Denied(said) if code in (_RESOURCE_LOCKED, _NOT_IMPLEMENTED) else Unavailable(said)


def _first_cause(error: BaseException) -> BaseException:
    """Returns the exception that caused pika's own exceptions."""
    while True:
        inner = getattr(error, "exceptions", None) or [getattr(error, "exception", None), *error.args]
        found = next((one for one in reversed(inner) if isinstance(one, BaseException)), None)
        if found is None:
            return error
        error = found
