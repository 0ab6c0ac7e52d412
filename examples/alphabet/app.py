"""Alphabet: adds up votes for letters, from binary records to binary records."""

from dataclasses import dataclass
from struct import pack, unpack
from typing import NamedTuple

from headrace.pipelines import Pipeline


class Votes(NamedTuple):
    """So many votes for a letter."""

    letter: bytes
    votes: int


@dataclass(slots=True)
class Total:
    """The state of a letter."""

    votes: int = 0


def decode(payload: bytes) -> Votes:
    """A letter and a u32, big-endian: 5 bytes."""
    return Votes(*unpack(">cI", payload))


def encode(votes: Votes) -> bytes:
    """A letter and a u64, big-endian: 9 bytes."""
    return pack(">cQ", *votes)


def add(given: Votes, total: Total) -> Votes:
    """Adds votes to those that the letter has, and says how many it has now."""
    total.votes += given.votes
    return Votes(given.letter, total.votes)


app = Pipeline("alphabet")
given = app.source("votes/*", decode=decode)
given.key_by(lambda votes: votes.letter).stateful(add, Total, name="totals").sink("totals", encode=encode)
