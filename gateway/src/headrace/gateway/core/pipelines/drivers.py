"""The drivers of queries: whether they still report, and whether two of them use one checkpoint.

Other processes of a query may call on while its driver is frozen: its planner renews the lease by itself.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.contract import clock
from headrace.gateway.core.connections import Silence
from headrace.protocol.v1 import admin_pb2 as pb

SILENT_AFTER_S = 8.0
"""After how many seconds without a report a driver is silent. It reports once a second."""
RIVAL_S = 60.0
"""For how many seconds a call of a replaced run counts. Two drivers that replace each other in turns call more often."""
MAX_RIVALS = 1_000


class Driver(Silence):
    """The calls of the driver of one query, or of the process that plans its micro-batches."""

    def __init__(self, silent_after_s: float | None = None) -> None:
        """Begins with its first report, or when it is first expected.

        Args:
            silent_after_s: After how many seconds without a call it is silent; None for `SILENT_AFTER_S`.
        """
        super().__init__()
        self._silent_after_s = silent_after_s
        self.peer = ""
        """The address that its last report has come from."""

    def heard(self, peer: str) -> None:
        """Notes that it has reported."""
        self.peer = peer
        self._end()

    @property
    def silent_ms(self) -> int | None:
        """For how long it has been silent, in milliseconds; None if it is not."""
        max_s = SILENT_AFTER_S if self._silent_after_s is None else self._silent_after_s
        silent_s = self._seconds
        # The round in which it was heard counts as a whole.
        return int(silent_s * 1000) if min(silent_s, self._rounds_s) >= max_s else None


@dataclass(frozen=True, slots=True)
class Rival:
    """A run that has called although another one has replaced it.

    Attributes:
        run: The run, for people.
        peer: The address that it has called from.
        current_peer: The address that the current run has called from; empty if that is not known.
        first_at: When the first of its calls came, on the monotonic clock.
        last_at: When the last of them came.
    """

    run: str
    peer: str
    current_peer: str
    first_at: float
    last_at: float


class Drivers:
    """The drivers of all queries, and the rivals of pipelines."""

    def __init__(self) -> None:
        self.by_query: dict[str, Driver] = {}
        """By the id of the query; at most as many as there are commit logs."""
        self._rivals: OrderedDict[str, Rival] = OrderedDict()

    def pass_round(self, seconds: float) -> None:
        """Lets a round of this many seconds count towards the silence of all drivers."""
        for driver in self.by_query.values():
            driver.pass_round(seconds)

    def note_rival(self, pipelines: Iterable[str], run: str, peer: str, current_peer: str) -> None:
        """Notes that a run of pipelines has called which another one has replaced."""
        now = clock.monotonic()
        for name in pipelines:
            known = self._rivals.pop(name, None)
            lasts = known is not None and now - known.last_at < RIVAL_S
            self._rivals[name] = Rival(run, peer, current_peer, known.first_at if known is not None and lasts else now, now)
            if len(self._rivals) > MAX_RIVALS:
                self._rivals.popitem(last=False)

    def end_rival(self, pipelines: Iterable[str], run: str) -> None:
        """Notes that a run which may be a rival of these pipelines has ended in order."""
        for name in pipelines:
            known = self._rivals.get(name)
            if known is not None and known.run == run:
                del self._rivals[name]

    def rival(self, pipeline: str) -> pb.RivalRun | None:
        """Returns the rival of a pipeline's run; None if none has called lately."""
        known = self._rivals.get(pipeline)
        now = clock.monotonic()
        if known is None or now - known.last_at >= RIVAL_S:
            return None
        return pb.RivalRun(
            run=known.run, peer=known.peer, current_peer=known.current_peer, age_ms=max(0, int((now - known.first_at) * 1000))
        )
