"""The records that the application reads and writes."""

from msgspec import Struct


class Payment(Struct, tag=True, frozen=True):
    """A payment that waits for a score."""

    id: int
    card: str
    amount: float
    km: float
    """From the holder's home."""
    hour: int


class Verdict(Struct, tag=True, frozen=True):
    """What became of a payment, known days later."""

    payment: int
    card: str
    fraud: bool


class Score(Struct, frozen=True):
    """A payment's probability of fraud, by what the model of its card knew."""

    payment: int
    card: str
    score: float
    held: bool
