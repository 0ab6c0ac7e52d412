"""Errors of the NATS connectors. Each states what is wrong and what to do.

NatsError
├── NatsAway                the server cannot be reached, or cannot answer now: a retry may help
│   └── SubjectFull         the stream has enough messages of a subject
└── NatsRefused             the server rejects the client or the request permanently
    └── NoAcknowledgements  the stream acknowledges nothing
"""

import ssl

import nats.errors
import nats.js.errors

from headrace.connectors.nats.settings import passes, reported
from headrace.sdk import HeadraceError


class NatsError(HeadraceError):
    """The base class of the errors of the NATS connectors."""


class NatsAway(NatsError):
    """The server cannot be reached, or cannot answer now. The connectors retry automatically."""


class SubjectFull(NatsAway):
    """The stream has as many messages of one subject as it keeps, and refuses new ones."""


class NatsRefused(NatsError):
    """The server rejects the client or the request permanently. The message states what to do."""

    exit_code = 2


def explain(error: BaseException, where: str, *, denied: str = "", reached: bool = False) -> NatsError:
    """Translates an exception of nats-py.

    Args:
        error: The exception.
        where: The servers, for the message.
        denied: The permission violation that the server has reported; requests then end without an answer.
        reached: Whether the servers were reached before, so that certificates that do not fit are being replaced.
    """
    if isinstance(error, NatsError):
        return error
    text = str(error).removeprefix("nats: ").strip("'")
    lowered = text.lower()
    untrusted = NatsAway if reached else NatsRefused
    if isinstance(error, ssl.SSLCertVerificationError):
        return untrusted(
            f"{where}: its certificate is not trusted: {error.verify_message}; set tls_ca to the authority that signed it"
        )
    if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
        return untrusted(f"{where} aborted the TLS handshake: {error.reason}; check tls_certificate and tls_key")
    if "authorization violation" in lowered:
        return NatsRefused(f"{where} rejects this client: check user and password, token, credentials_file or nkey_file")
    if "authentication" in lowered and ("expired" in lowered or "revoked" in lowered):
        return NatsRefused(f"{where} no longer accepts this client: {text}; set new credentials")
    if isinstance(error, nats.errors.SecureConnRequiredError):
        return NatsRefused(f"{where} does not offer TLS; nothing was sent. Enable TLS there, or remove the TLS parameters")
    if isinstance(error, nats.js.errors.APIError):
        return _explain_answer(error, where)
    if denied:
        return NatsRefused(f"{where}: {denied}; grant it to this user")
    if isinstance(error, TimeoutError):
        return NatsAway(f"{where} does not answer")
    return NatsAway(f"{where}: {text or type(error).__name__}")


def _explain_answer(error: nats.js.errors.APIError, where: str) -> NatsError:
    """Translates an error response of JetStream."""
    if error.code is None:
        return NatsAway(f"{where}: JetStream does not answer; is it enabled there, and for this account?")
    said = f"{where}: {reported(error.description, error.err_code)}"
    return NatsAway(said) if passes(error.code, error.err_code) else NatsRefused(said)
