"""What can be wrong with a NATS server, told so that it can be mended.

NatsError
├── NatsAway      it cannot be reached or cannot answer now: worth another attempt
└── NatsRefused   it refuses who asks, or what is asked for, and would again
"""

import ssl

import nats.errors
import nats.js.errors

from headrace.sdk import HeadraceError

_PASSING = {408, 429}
_TOO_MANY_CONSUMERS = 10026


class NatsError(HeadraceError):
    """The root of what the NATS connectors raise."""


class NatsAway(NatsError):
    """The server cannot be reached, or cannot answer now. The connectors try again by themselves."""


class NatsRefused(NatsError):
    """The server refuses who asks, or what is asked for, and would again. The message says what to do."""

    exit_code = 2


def explain(error: BaseException, where: str, *, denied: str = "") -> NatsError:
    """What an exception of nats-py means.

    Args:
        error: The exception.
        where: The servers, for people.
        denied: What the server has said that this user may not do; requests then end without an answer.
    """
    if isinstance(error, NatsError):
        return error
    text = str(error).removeprefix("nats: ").strip("'")
    lowered = text.lower()
    if isinstance(error, ssl.SSLCertVerificationError):
        return NatsRefused(f"{where}: its certificate is not trusted: {error.verify_message}; name who signed it with tls_ca")
    if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
        return NatsRefused(f"{where} breaks the TLS handshake off: {error.reason}; check tls_certificate and tls_key")
    if "authorization violation" in lowered:
        return NatsRefused(f"{where} does not let this client in: check user and password, token, credentials_file or nkey_file")
    if "authentication" in lowered and ("expired" in lowered or "revoked" in lowered):
        return NatsRefused(f"{where} does not let this client in any more: {text}; give it new credentials")
    if isinstance(error, nats.errors.SecureConnRequiredError):
        return NatsRefused(f"{where} does not offer TLS; nothing was sent. Enable it there, or leave the parameters of TLS out")
    if isinstance(error, nats.js.errors.APIError):
        return _explain_answer(error, where)
    if denied:
        return NatsRefused(f"{where}: {denied}; grant it to this user")
    if isinstance(error, TimeoutError):
        return NatsAway(f"{where} does not answer")
    return NatsAway(f"{where}: {text or type(error).__name__}")


def _explain_answer(error: nats.js.errors.APIError, where: str) -> NatsError:
    """What it means that JetStream has answered with an error."""
    if error.code is None:
        return NatsAway(f"{where}: JetStream does not answer; is it enabled there, and for this account?")
    said = f"{where}: JetStream says: {error.description} ({error.err_code})"
    return NatsAway(said) if passes(error.code, error.err_code) else NatsRefused(said)


def passes(code: int, error: int | None) -> bool:
    """Whether an error of JetStream is over after a while, by what kind of error it is and by its number."""
    # Consumers of readers that were killed are gone after a while.
    return code >= 500 or code in _PASSING or error == _TOO_MANY_CONSUMERS
