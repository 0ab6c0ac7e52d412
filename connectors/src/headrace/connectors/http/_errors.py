"""Errors of the HTTP sink. Each says what is wrong and what to do.

HttpError ├── Unavailable     it does not answer, or is temporarily unable to: worth a retry └── Denied          it rejects all
such requests, whatever the message
"""

from headrace.sdk import HeadraceError


class HttpError(HeadraceError):
    """The base class of the errors of the HTTP sink."""


class Unavailable(HttpError):
    """The receiver does not answer, or is temporarily unable to.

    Attributes:
        retry_after: The delay before a retry that it asks for, in seconds; None if it does not say.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        """Creates the error with the delay that the receiver asks for, in seconds."""
        super().__init__(message)
        self.retry_after = retry_after


class Denied(HttpError):
    """The receiver rejects all requests like this one: there is nothing at the URL, or the token is wrong."""
