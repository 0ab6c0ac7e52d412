"""All bundled connectors for some minutes, while brokers restart and networks fail at random; every message is accounted for.

`python -m tests.broker_crashes.soak --minutes 30` starts brokers of its own. A seed decides what happens to whom.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scripts.brokers import BROKERS, Broker
from tests.broker_crashes import kafka, local, nats, postgresql, rabbitmq
from tests.broker_crashes.pairs import Pair
from tests.broker_crashes.schedule import GATEWAY
from tests.broker_crashes.world import World
from tests.brokers.network import FaultyNetwork

from headrace.machine.ports import free_address

RESTART, CUT, RESET, REFUSE = "restart", "cut", "reset", "refuse"
_MAX_S = 15.0
"""For how long a network is away at most."""
_AT_ONCE = 3
"""How many things happen at the same time, each to another system."""
_MAX_MESSAGES = 2_000

Say = Callable[[str], None]


@dataclass
class Account:
    """The account of a pair's messages.

    Attributes:
        pair: Its source and its sink.
        published: How many messages were published.
        arrived: How many of them have a result.
        repeats: How many results are there again.
        findings: The breaches of what the pages of both connectors promise.
    """

    pair: str
    published: int
    arrived: int
    repeats: int
    findings: list[str]


@dataclass
class Outcome:
    """The events of the run, and the account of all messages.

    Attributes:
        seed: What decided.
        seconds: How long it ran.
        faults: How often each fault happened.
        stalls: How often each stream was seen that had stalled.
        accounts: The account of each pair's messages.
    """

    seed: int
    seconds: float
    faults: Counter[str] = field(default_factory=Counter)
    stalls: Counter[str] = field(default_factory=Counter)
    accounts: list[Account] = field(default_factory=list)

    @property
    def findings(self) -> list[str]:
        """Everything that is wrong."""
        wrong = [f"{account.pair}: {finding}" for account in self.accounts for finding in account.findings]
        return wrong + [f"{stream} stalled" for stream in self.stalls]


class _Proxied:
    """A broker as it is reached through a network that fails."""

    def __init__(self, broker: Any, network: FaultyNetwork) -> None:
        self._broker, self.port, self.url = broker, network.port, broker.url_at(network.port)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)


class Soak:
    """One run. Its processes have ended once `run` returns or raises, except the brokers."""

    def __init__(self, folder: Path, brokers: Mapping[str, Broker], seed: int, seconds: float, say: Say) -> None:
        """Starts nothing.

        Args:
            folder: A new folder.
            brokers: A broker of each system, which runs.
            seed: What decides.
            seconds: For how long things happen.
            say: Called with lines of progress.
        """
        self._folder, self._brokers, self._seconds, self._say = folder, brokers, seconds, say
        self._chance = random.Random(seed)
        self._coming: list[tuple[str, str]] = []
        self._networks: dict[str, FaultyNetwork] = {}
        self._outcome = Outcome(seed, seconds)

    def run(self) -> Outcome:
        """Runs to the end.

        Raises:
            AssertionError: A process has ended by itself, or something does not come to its end.
        """
        with ExitStack() as stack:
            receiver = local.Receiver()
            stack.callback(receiver.close)
            reached: dict[str, Any] = {**self._brokers, "http": receiver}
            for system, broker in reached.items():
                self._networks[system] = stack.enter_context(FaultyNetwork(*broker.proxied))
            address = free_address()
            self._networks[GATEWAY] = stack.enter_context(FaultyNetwork(int(address.rpartition(":")[2])))
            listen, tcp = free_address(), local.TcpPair(self._folder)
            proxied = {system: _Proxied(broker, self._networks[system]) for system, broker in reached.items()}
            pairs, connected = ([*_pairs(found, self._folder, listen), tcp] for found in (reached, proxied))
            world = World(
                self._folder,
                pairs,
                self._brokers,
                connected=connected,
                address=address,
                dialled=self._networks[GATEWAY].address,
                max_messages=_MAX_MESSAGES,
            )
            stack.callback(world.dispose)
            self._say("starts everything")
            world.start()
            self._happen(world)
            self._say("waits for everything that was published")
            world.rest()
            self._outcome.accounts = [_account(world, pair) for pair in pairs]
        return self._outcome

    def _happen(self, world: World) -> None:
        """Lets things happen round after round, and waits after each until every pair has gone on."""
        until = time.monotonic() + self._seconds
        while (left := until - time.monotonic()) > 0:
            faults = self._next()
            told = ", ".join(f"{system} {fault}" for system, fault in faults.items())
            self._outcome.faults.update(f"{system} {fault}" for system, fault in faults.items())
            self._say(f"{left:5.0f} s left: {told}; {sum(world.published.values()):,} published")
            shown = {pair.name: pair.visible() for pair in world.pairs.values()}
            self._fail(faults, world)
            for pair in world.pairs.values():
                if not pair.may_lose:
                    world.wait_for(
                        f"{pair.name} continues after {told}", lambda pair=pair, before=shown[pair.name]: pair.visible() > before
                    )
            self._outcome.stalls.update(world.stalled())

    def _next(self) -> dict[str, str]:
        """What happens next, by system: everything happens once before anything does again."""
        if len(self._coming) < _AT_ONCE:
            faults = [(system, RESTART) for system in self._brokers]
            faults += [(system, fault) for system in self._networks for fault in (CUT, RESET, REFUSE)]
            self._coming += self._chance.sample(faults, len(faults))
        chosen: dict[str, str] = {}
        for system, fault in self._coming[:_AT_ONCE]:
            if chosen.setdefault(system, fault) == fault:
                self._coming.remove((system, fault))
        return chosen

    def _fail(self, faults: Mapping[str, str], world: World) -> None:
        """Has brokers and networks fail for a while, in which messages are published all the same."""
        restarted = [system for system, fault in faults.items() if fault == RESTART]
        for system, fault in faults.items():
            if fault == RESTART:
                world.kill_broker(system)
            else:
                getattr(self._networks[system], fault)()
        self._publish(world, but=restarted)
        time.sleep(self._chance.uniform(0.5, _MAX_S))
        for system, fault in faults.items():
            if fault in (CUT, REFUSE):
                self._networks[system].restore()
        for system in restarted:
            world.wait_for_broker(system)
        self._publish(world)

    def _publish(self, world: World, but: Sequence[str] = ()) -> None:
        for pair in world.pairs.values():
            if pair.system not in but:
                world.publish(pair)


def _pairs(brokers: Mapping[str, Any], folder: Path, listen: str) -> Sequence[Pair]:
    """All pairs but TCP's, whose ends need no network: the HTTP source listens at `listen`."""
    return [
        rabbitmq.QueuePair(brokers["rabbitmq"]),
        rabbitmq.StreamPair(brokers["rabbitmq"]),
        nats.StreamPair(brokers["nats"]),
        nats.ConsumerPair(brokers["nats"]),
        nats.CorePair(brokers["nats"]),
        kafka.KafkaPair(brokers["kafka"]),
        postgresql.TablePair(brokers["postgresql"]),
        postgresql.OutboxPair(brokers["postgresql"]),
        local.HttpPair(brokers["http"], listen),
        local.FilePair(folder),
    ]


def _account(world: World, pair: Pair) -> Account:
    """The account of a pair's messages."""
    rows, published = pair.rows(), world.published[pair.name]
    findings = [*pair.findings(rows, published), *(f"{stream} is not acknowledged" for stream in world.unacknowledged(pair))]
    repeats = len(rows) - len({row.number for row in rows})
    return Account(f"{pair.name} to {pair.sink}", published, pair.visible(), repeats, findings)


def shown(outcome: Outcome) -> str:
    """An outcome as lines for people."""
    lines = [f"seed {outcome.seed}, {outcome.seconds / 60:g} min, {sum(outcome.faults.values())} faults:"]
    lines += [f"  {count:3} x {fault}" for fault, count in sorted(outcome.faults.items())]
    for one in outcome.accounts:
        lines.append(f"  {one.pair:38} {one.published:7,} published {one.arrived:7,} arrived {one.repeats:6,} repeats")
    return "\n".join([*lines, *(outcome.findings or ["every message is accounted for"])])


def say(line: str) -> None:
    """Prints progress."""
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    """Runs the command line. Returns the exit code: 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.broker_crashes.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="for how long things happen")
    parser.add_argument("--seed", type=int, default=random.getrandbits(32), help="what decides what happens; random by default")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="headrace-soak-"))
    # Its brokers end with it, even if it is killed.
    command = [sys.executable, "-m", "scripts.brokers._guard", str(folder)]
    guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    assert guard.stdin is not None
    # PostgreSQL runs as a user of its own where this is root.
    folder.chmod(0o711)
    (folder / "run").mkdir()
    brokers = {name: kind(folder / name) for name, kind in BROKERS.items()}
    say(f"seed {given.seed}, in {folder}")
    try:
        for broker in brokers.values():
            broker.start()
        outcome = Soak(folder / "run", brokers, given.seed, given.minutes * 60, say).run()
    finally:
        guard.stdin.close()
        guard.wait()
    # asdict() cannot copy a Counter.
    document = {**vars(outcome), "accounts": [asdict(account) for account in outcome.accounts]}
    print(json.dumps(document) if given.json else shown(outcome))
    return 1 if outcome.findings else 0


if __name__ == "__main__":
    sys.exit(main())
