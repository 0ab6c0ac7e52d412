"""Alphabet: adds up votes for letters, from binary records to binary records."""

from dataclasses import dataclass
from struct import pack, unpack
from typing import NamedTuple

from headrace.pipelines import Pipeline


class Votes(NamedTuple):
    """A number of votes for a letter."""

    letter: bytes
    votes: int


@dataclass(slots=True)
class Total:
    """The state of a letter."""

    votes: int = 0


def decode(payload: bytes) -> Votes:
    """Parses a letter and a big-endian u32: 5 bytes."""
    return Votes(*unpack(">cI", payload))


def encode(votes: Votes) -> bytes:
    """Returns a letter and a big-endian u64: 9 bytes."""
    return pack(">cQ", *votes)


def add(given: Votes, total: Total) -> Votes:
    """Adds votes to a letter's total, and returns the new total."""
    total.votes += given.votes
    return Votes(given.letter, total.votes)


app = Pipeline("alphabet")
given = app.source("votes/*", decode=decode)
given.key_by(lambda votes: votes.letter).stateful(add, Total, name="totals").sink("totals", encode=encode)
