"""Errors of the HTTP sink. Each states what is wrong and what to do.

HttpError
├── Unavailable     the receiver does not answer, or temporarily cannot: a retry may help
└── Denied          the receiver rejects all such requests, whatever the message
"""

from headrace.sdk import HeadraceError


class HttpError(HeadraceError):
    """The base class of the errors of the HTTP sink."""


class Unavailable(HttpError):
    """The receiver does not answer, or temporarily cannot. A retry may help.

    Attributes:
        retry_after: The delay before a retry that the receiver requests, in seconds; None if it does not specify one.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        """Creates the error with the delay that the receiver requests, in seconds."""
        super().__init__(message)
        self.retry_after = retry_after


class Denied(HttpError):
    """The receiver rejects all requests like this one: there is nothing at the URL, or the token is wrong."""
