"""Votes: a program in Go counts them by candidate."""

from headrace.pipelines import OnError, Pipeline


def candidate(vote: str) -> str:
    """Returns the candidate of a vote, its first word."""
    return vote.partition(" ")[0]


def voter(vote: str) -> str:
    """Returns the voter, the rest of it."""
    return vote.partition(" ")[2]


app = Pipeline("election", dead_letters="invalid")
votes = app.source("votes/*", decode=bytes.decode).key_by(candidate).map(voter)
totals = votes.stateful_program(["./votes"], state=["count", "last"], name="votes", on_error=OnError.DEAD_LETTER)
totals.sink("totals")
