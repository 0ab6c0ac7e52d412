"""What a schedule consists of: systems, queries, conditions and faults, drawn by a seed, and kept as JSON."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Literal

TWO_PHASE, IDEMPOTENT, AT_LEAST_ONCE = "two-phase", "idempotent", "at-least-once"


@dataclass(frozen=True)
class SourcePlan:
    """A source, and what it reads."""

    name: str
    redelivers: bool
    partitions: int
    prunes: bool = False
    """Whether its log deletes what is acknowledged."""
    resumes: bool = False
    """Whether it is a feed, which sends everything after a cursor, and never the same messages again."""

    @property
    def is_log(self) -> bool:
        """Whether it is a log."""
        return not self.redelivers and not self.resumes


@dataclass(frozen=True)
class SinkPlan:
    """A sink."""

    name: str
    mode: str
    instances: int = 1


@dataclass(frozen=True)
class QueryPlan:
    """A query: the sources that it reads, and the sinks that it writes to."""

    name: str
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    tables: tuple[str, ...] = ()
    """The sources that it reads to their present end before the others."""

    @property
    def waiting(self) -> tuple[str, ...]:
        """The sources that wait for the tables."""
        return tuple(source for source in self.sources if self.tables and source not in self.tables)


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """Under which conditions everything runs: limits, sizes and speeds. Times are in seconds unless the name says otherwise."""

    messages: int = 20
    """How many messages are produced."""
    message_bytes: int = 40
    """How large a message of a log is at most."""
    produce_s: float = 1.0
    """For how long they are produced."""
    fault_s: float = 5.0
    """When faults stop."""
    look_s: float = 16.0
    """After how long everything must be at rest; if it is not, it is looked at again once late notices have come."""
    ends: bool = False
    """Whether partitions end."""
    session_messages: int = 10_000
    max_frame_messages: int = 100
    buffer_bytes: int = 16 * 2**20
    max_sessions: int = 500
    lease_ms: int = 60_000
    write_timeout_ms: int = 30_000
    drain_timeout_ms: int = 3_000
    tokens: bool = False
    """Whether the gateway requires a token."""
    frame_messages: int = 50
    """At how many messages the SDK sends a frame without waiting."""
    drain_s: float = 3.0
    tasks: int = 1
    tell_ends: bool = False
    max_messages: int | None = None
    """The maximum number of messages in a micro-batch."""
    poll_s: float = 0.1
    task_s: float = 0.001
    slow_tasks_s: float = 0.0
    doubled: float = 0.0
    """The probability that a task is attempted twice at a time."""
    inline: float = 0.0
    """The probability that the planner fetches a batch of one task."""
    progress_s: float = 0.01
    """How long the driver takes at most to learn of a commit."""
    gateway_timeout_s: float = 60.0
    sink_timeout_s: float = 20.0
    sticky: float = 0.0
    """The probability that a process runs on while others could."""
    hiccups: float = 0.0
    """The probability that a process is held up at a point."""
    repeats: float = 0.0
    """The probability that a call of a planner arrives once more, at any gateway, and any time later."""
    moved_cursors: float = 0.0
    """The probability that a log moves its cursor, each time that it says that it has nothing to send."""
    clocks_s: tuple[float, ...] = ()
    """By how much the clock of each gateway is ahead in the beginning: hosts do not agree on the time."""


@dataclass(frozen=True)
class At:
    """When a fault strikes: at a time, before a callback, or when a point is passed."""

    what: Literal["time", "callback", "point"]
    number: float
    """Seconds, the number of the callback, or the how-manieth pass."""
    point: str = ""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something that goes wrong, or that somebody does."""

    kind: str
    at: At
    who: str = ""
    """The role that it strikes."""
    second: str = ""
    """A second role that it strikes."""
    what: str = ""
    """The kind of part that is paused, or the call that fails."""
    for_s: float = 0.0
    """How long it lasts, or until when the role is started again."""
    client_s: float = 0.0
    """After how long a client notices that its connection is cut."""
    server_s: float = 0.0
    """After how long the gateway notices it."""
    share: float = 1.0
    """Which share of the connections it strikes."""
    by_s: float = 0.0
    """By how much a clock jumps."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """All that decides about a simulation."""

    seed: str
    profile: str
    """What it was drawn to concentrate on."""
    scale: str = "large"
    """How large a world it was drawn for."""
    sources: tuple[SourcePlan, ...]
    sinks: tuple[SinkPlan, ...]
    queries: tuple[QueryPlan, ...]
    conditions: Conditions
    faults: tuple[Fault, ...] = ()
    gateways: int = 1
    """How many gateways run, of which one has the address that all processes connect to."""

    def readers(self, source: str) -> list[str]:
        """Returns the queries that read a source."""
        return [query.name for query in self.queries if source in query.sources]

    def bootstraps(self, query: QueryPlan) -> str | None:
        """Returns what the engine's option of this name tells of the tables of a query; None if it has none.

        A table waits for all partitions that its log has in the beginning.
        """
        held = [f"{source}/*" for source in query.waiting]
        partitions = {source.name: source.partitions for source in self.sources}
        tables = [
            {"table": table, "streams": [f"{table}/*"], "held": held, "least_streams": partitions[table]}
            for table in query.tables
        ]
        return json.dumps(tables) if tables else None

    def instances(self) -> list[str]:
        """Returns the names of all instances of sinks."""
        return [f"{sink.name}-{number}" for sink in self.sinks for number in range(sink.instances)]

    def gateway_names(self) -> list[str]:
        """Returns the names of the gateways; the first one has the address in the beginning."""
        return ["gateway", *(f"gateway{number}" for number in range(1, self.gateways))]

    def roles(self) -> list[str]:
        """Returns the names of all roles."""
        return [
            *self.gateway_names(),
            *(s.name for s in self.sources),
            *self.instances(),
            *(query.name for query in self.queries),
        ]

    def to_json(self) -> str:
        """Returns it as JSON."""
        return json.dumps(dataclasses.asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Schedule":
        """Reads the JSON form."""
        document = json.loads(text)
        return cls(
            seed=document["seed"],
            profile=document["profile"],
            scale=document.get("scale", "large"),
            sources=tuple(SourcePlan(**each) for each in document["sources"]),
            sinks=tuple(SinkPlan(**each) for each in document["sinks"]),
            queries=tuple(_query(each) for each in document["queries"]),
            conditions=_conditions(document["conditions"]),
            faults=tuple(Fault(**{**each, "at": At(**each["at"])}) for each in document["faults"]),
            gateways=document["gateways"],
        )


def _query(document: dict[str, Any]) -> QueryPlan:
    names = (tuple(document.get(field, ())) for field in ("sources", "sinks", "tables"))
    return QueryPlan(document["name"], *names)


def _conditions(document: dict[str, Any]) -> Conditions:
    return Conditions(**{**document, "clocks_s": tuple(document.get("clocks_s", ()))})
