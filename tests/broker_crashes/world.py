"""Everything that runs: a gateway, a Spark driver, a source and a sink connector for each pair, and the brokers."""

import contextlib
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
from scripts.brokers import Broker
from tests.broker_crashes.pairs import Pair
from tests.broker_crashes.schedule import BROKER, DRIVER, GATEWAY, SINKS, SOURCES, Victim
from tests.broker_crashes.workload import DEDUPLICATES, HAS_NO_KEY

from headrace.machine.ports import free_address
from headrace.processes import OwnedProcess, Scratch, spark_environ
from headrace.protocol.v1 import admin_pb2
from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

ROOT = Path(__file__).parents[2]
DEADLINE_S = 300.0
OFFER = 60
"""How many messages are published to a pair at a time: several micro-batches."""
_LOOKS_EVERY_S = 0.25
"""Each look asks all brokers, by new connections."""
MAX_MESSAGES = 100
"""In a micro-batch, of all pairs: small, so that there are some of them to kill things in."""
_HEADRACE = ["-m", "headrace.cli"]
_START = "import pathlib, sys, scripts.brokers as b; getattr(b, sys.argv[1])(pathlib.Path(sys.argv[2])).start()"


class World:
    """Processes that are killed and started again while there is work for them.

    Attributes:
        kills: The victims, with what each of its pairs had published and shown just before.
    """

    def __init__(
        self,
        folder: Path,
        pairs: Sequence[Pair],
        brokers: Mapping[str, Broker],
        *,
        connected: Sequence[Pair] = (),
        address: str = "",
        dialled: str = "",
        max_messages: int = MAX_MESSAGES,
    ) -> None:
        """Starts nothing.

        Args:
            folder: Where logs, configurations and the checkpoint are.
            pairs: The systems that are read and written, and their connectors.
            brokers: The brokers by system.
            connected: The same pairs as their connectors reach the brokers; the same as `pairs` if there are none.
            address: Where the gateway listens; any free port if it is empty.
            dialled: Where connectors reach the gateway; its address if it is empty.
            max_messages: How many messages a micro-batch has at most.
        """
        self.pairs = {pair.name: pair for pair in pairs}
        self.kills: dict[Victim, dict[str, tuple[int, int]]] = {}
        self.published = dict.fromkeys(self.pairs, 0)
        self._brokers = brokers
        self._folder = folder
        # Sockets lie in the scratch folder, and their paths must be short.
        self._scratch = Scratch()
        self._environ = {**spark_environ(self._scratch.path), "PYTHONUNBUFFERED": "1"}
        self._address = address or free_address()
        self._dialled = dialled or self._address
        driver = ["-m", "tests.broker_crashes.query", str(folder), self._address, str(max_messages), *map(_marked, pairs)]
        self._processes = {
            DRIVER: self._process(DRIVER, driver),
            GATEWAY: self._process(GATEWAY, [*_HEADRACE, "gateway", "--listen", self._address]),
        }
        for pair in connected or pairs:
            sink = f"{pair.name}-results"
            self._connector(_source(pair), {"connector": pair.name, "source": pair.name, **pair.source_parameters})
            self._connector(_sink(pair), {"connector": pair.sink, "sink": sink, **pair.sink_parameters})
        self._starters = {
            system: self._process(f"start-{system}", ["-c", _START, type(broker).__name__, str(broker.folder)])
            for system, broker in brokers.items()
        }

    def start(self) -> None:
        """Makes what is read and written, starts everything, and waits until there is something to see of each pair."""
        for pair in self.pairs.values():
            pair.make()
        for process in self._processes.values():
            process.start()
        for pair in self.pairs.values():
            self.publish(pair)
        for pair in self.pairs.values():
            # What may lose messages has lost the first ones if it was not there yet.
            self.wait_for(f"{pair.name} shows something", lambda pair=pair: pair.may_lose or pair.visible() > 0)

    def dispose(self) -> None:
        """Ends everything but the brokers."""
        for pair in self.pairs.values():
            pair.close()
        for process in self._processes.values():
            process.send_kill()
        for process in self._processes.values():
            process.kill()
        self._scratch.remove()

    # What happens

    def publish(self, pair: Pair) -> None:
        """Publishes some messages more."""
        first = self.published[pair.name] + 1
        pair.publish(range(first, first + OFFER))
        self.published[pair.name] += OFFER

    def send_kill(self, victims: Sequence[Victim]) -> None:
        """Publishes to everybody, and kills each of the victims with its work under way; returns when all are back."""
        shown = {pair.name: pair.visible() for pair in self.pairs.values()}
        for pair in self.pairs.values():
            self.publish(pair)
        for victim in victims:
            pairs = [pair for pair in self.pairs.values() if victim.system in (None, pair.system)]
            self.kills[victim] = self._under_way(victim, pairs, shown)
            self._kill(victim, pairs)
        for victim in victims:
            if victim.role == BROKER:
                assert victim.system is not None
                self.wait_for_broker(victim.system)

    def kill_broker(self, system: str) -> None:
        """SIGKILL, and a new start, for which this does not wait."""
        self._kill(Victim(BROKER, system), ())

    def wait_for_broker(self, system: str) -> None:
        """Returns when a broker that was killed is back."""
        starter = self._starters[system]
        self.wait_for(f"{Victim(BROKER, system)} is back", lambda: self._has_ended(starter))

    def stalled(self) -> list[str]:
        """The streams that lag, have credit and send nothing."""
        return [problem.part for problem in self._status().problems if problem.kind == "source-stalled"]

    def rest(self) -> None:
        """Waits until all results are there, and nothing is left to be acknowledged."""
        for pair in self.pairs.values():
            everything = self.published[pair.name]
            if not pair.may_lose:
                self.wait_for(f"{pair.name} shows everything", lambda pair=pair, all=everything: pair.visible() >= all)
        self.wait_for("everything is acknowledged", self._all_acknowledged)
        for pair in self.pairs.values():
            self.wait_for(f"{pair.name} has nothing left", lambda pair=pair: pair.left() is None)

    def unacknowledged(self, pair: Pair) -> list[str]:
        """Streams of a pair of which the gateway has more than is acknowledged; `none` where it has no stream at all."""
        streams = [stream for stream in self._status().streams if stream.stream.startswith(f"{pair.name}/")]
        return [str(stream) for stream in streams if not _is_acknowledged(stream)] if streams else ["none"]

    def wait_for(self, what: str, condition: Callable[[], bool]) -> None:
        """Waits until a condition is true; fails early where a process ends by itself."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            ended = [name for name, process in self._processes.items() if not process.runs or process.exit_code() is not None]
            if ended or time.monotonic() > deadline:
                why = f"{', '.join(ended)} ended by itself" if ended else f"not within {DEADLINE_S:.0f} s"
                raise AssertionError(f"{what}: {why}\n{self.describe()}")
            time.sleep(_LOOKS_EVERY_S)

    def describe(self) -> str:
        """Where everything is, and what each process said last."""
        lines = [f"published {self.published}, killed {', '.join(map(str, self.kills))}"]
        for name, process in {**self._processes, **self._starters}.items():
            lines += [f"=== {name}", *process.tail()]
        with contextlib.suppress(grpc.RpcError):
            lines += ["=== status", str(self._status())]
        return "\n".join(lines)

    # How

    def _under_way(self, victim: Victim, pairs: Sequence[Pair], shown: Mapping[str, int]) -> dict[str, tuple[int, int]]:
        """Waits until each pair has shown something new, and gives each something to do; what was published and visible."""
        visible: dict[str, int] = {}

        def look() -> bool:
            visible.update({pair.name: pair.visible() for pair in pairs})
            return all(visible[pair.name] > shown[pair.name] for pair in pairs)

        self.wait_for(f"work of {victim} is under way", look)
        for pair in pairs:
            # To look is slow where the machine is busy: what was there to do may be done.
            if visible[pair.name] >= self.published[pair.name]:
                self.publish(pair)
        return {pair.name: (self.published[pair.name], visible[pair.name]) for pair in pairs}

    def _kill(self, victim: Victim, pairs: Sequence[Pair]) -> None:
        """SIGKILL, and a new start."""
        if victim.role == BROKER:
            assert victim.system is not None
            self._brokers[victim.system].kill()
            # In a process of its own, which may fork as it likes: this one has threads of gRPC.
            self._starters[victim.system].start()
            return
        names = {GATEWAY: [GATEWAY], DRIVER: [DRIVER], SOURCES: map(_source, pairs), SINKS: map(_sink, pairs)}[victim.role]
        for name in names:
            self._processes[name].kill()
            self._processes[name].start()

    def _has_ended(self, starter: OwnedProcess) -> bool:
        code = starter.exit_code()
        assert code in (None, 0), self.describe()
        return code == 0

    def _all_acknowledged(self) -> bool:
        return not any(self.unacknowledged(pair) for pair in self.pairs.values())

    def _status(self) -> admin_pb2.GetStatusResponse:
        with grpc.insecure_channel(self._address) as channel:
            return AdminServiceStub(channel).GetStatus(admin_pb2.GetStatusRequest(), timeout=300)

    def _connector(self, name: str, document: Mapping[str, Any]) -> None:
        """A connector with its configuration; every JSON value here is one in TOML, too."""
        path = self._folder / f"{name}.toml"
        path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in document.items()))
        run = [*_HEADRACE, "connector", "run", "-c", str(path), "--gateway", self._dialled]
        self._processes[name] = self._process(name, run)

    def _process(self, name: str, arguments: Sequence[str]) -> OwnedProcess:
        return OwnedProcess(name, [sys.executable, *arguments], self._folder, self._environ, cwd=ROOT)


def _is_acknowledged(stream: admin_pb2.StreamStatus) -> bool:
    """Whether all that came is acknowledged. In a new epoch of a queue, nothing may have come."""
    is_empty = stream.received.epoch > 0 and stream.received.sequence == 0
    return is_empty or stream.received == stream.acknowledged


def _marked(pair: Pair) -> str:
    """The name of a pair as the query wants it."""
    return pair.name + ("" if pair.has_key else HAS_NO_KEY) + (DEDUPLICATES if pair.deduplicates else "")


def _source(pair: Pair) -> str:
    return f"{pair.name}-source"


def _sink(pair: Pair) -> str:
    return f"{pair.name}-sink"
