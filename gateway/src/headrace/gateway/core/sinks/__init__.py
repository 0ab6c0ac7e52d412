"""Sinks: their sessions, their transactions, and the commit logs that decide about them."""

from headrace.gateway.core.sinks.commit_log import CommitLog, Decision, QueryOwners, Segment
from headrace.gateway.core.sinks.dead_letters import DeadLetters, PartLetters
from headrace.gateway.core.sinks.outbox import Response
from headrace.gateway.core.sinks.parts import Holdings, OpenPart, Refused
from headrace.gateway.core.sinks.session import SinkSession
from headrace.gateway.core.sinks.sink import Sink
from headrace.gateway.core.sinks.transaction import Part, Transaction, check_pipeline, check_sink
from headrace.gateway.core.sinks.votes import Voter, Votes

__all__ = [
    "CommitLog",
    "DeadLetters",
    "Decision",
    "Holdings",
    "OpenPart",
    "Part",
    "PartLetters",
    "QueryOwners",
    "Refused",
    "Response",
    "Segment",
    "Sink",
    "SinkSession",
    "Transaction",
    "Voter",
    "Votes",
    "check_pipeline",
    "check_sink",
]
