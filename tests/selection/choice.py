"""Which tests a run has: all that are light, and of the heavy ones all, a sample, or a share of what the sample leaves out.

A test is heavy if `costs.txt` has its cost; any other is light, and is in every run. The choice depends on a test's
name, on its kinds and on a seed alone, so that separate sessions of one run, and the runs of several days, agree.
"""

import hashlib
import random
import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_name("costs.txt")
FRACTION = 0.02
"""A sample takes one heavy test of each kind, and more of a subject up to this part of what its heavy tests cost."""
MAX_FIRST_COST = 60.0
"""A sample takes a test that costs more seconds only where its subject or kind has no cheaper one; shares take the others."""
TURNS = 3
"""In how many runs of all tests a test with the mark `in_turn` comes once, unless the mark says another number."""
KIT = re.compile(r"tests/connectors/\w+/test_conformance\.py")
"""The modules that have the kit judge bundled connectors: one subject, since there the connectors differ little."""


@dataclass(frozen=True)
class Heavy:
    """A heavy test.

    Attributes:
        name: Its node id.
        cost: Its processor time in seconds, or half of its seconds where it mostly waits.
        subject: What it is about, which is one of its kinds: see `subject_of`.
        others: More kinds: what it needs and not every test of its subject does, such as a store.
    """

    name: str
    cost: float
    subject: str
    others: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Share:
    """One of several disjoint shares, which together are all tests.

    Attributes:
        part: Its number, from 1.
        of: How many shares there are.
    """

    part: int
    of: int

    def __contains__(self, name: str) -> bool:
        """Whether a test is in it: by its name, so that a test that is added moves no other."""
        digest = hashlib.sha256(name.encode()).digest()
        return int.from_bytes(digest[:8], "big") % self.of == self.part - 1

    def __str__(self) -> str:
        return f"{self.part}/{self.of}"


def parse_share(text: str) -> Share:
    """Reads `I/N`.

    Raises:
        ValueError: It is not I/N with 1 <= I <= N.
    """
    part, slash, of = text.partition("/")
    if not (slash and part.isdecimal() and of.isdecimal() and 1 <= int(part) <= int(of)):
        raise ValueError(f"{text}: want I/N with 1 <= I <= N")
    return Share(int(part), int(of))


def read_costs(text: str) -> dict[str, float]:
    """Reads lines of a cost and a test: the node id of one case, or of a function, which holds for each of its cases.

    Raises:
        ValueError: A line has no positive number and name, or names a test that another line names.
    """
    costs: dict[str, float] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        seconds, _, name = line.strip().partition(" ")
        name = name.strip()
        if not name or name in costs or not float(seconds) > 0:
            raise ValueError(f"line {number}: want processor seconds and a test that no other line names, not {line!r}")
        costs[name] = float(seconds)
    return costs


def cost_of(name: str, costs: Mapping[str, float]) -> float | None:
    """Returns the cost of a heavy test, and None for a light one."""
    return costs.get(name, costs.get(name.partition("[")[0]))


def subject_of(name: str) -> str:
    """Returns what a test is about: the folder that it is in, or the kit."""
    module = name.partition("::")[0]
    return "kit" if KIT.fullmatch(module) else module.rpartition("/")[0]


def gone(costs: Iterable[str], root: Path) -> list[str]:
    """Returns the names in the table whose file or function is no longer there."""
    return [name for name in costs if not _exists(root, *name.partition("[")[0].split("::"))]


def _exists(root: Path, module: str, *names: str) -> bool:
    path = root / module
    # A model-based machine is a test case by assignment, whose one test hypothesis has.
    wanted = rf"^{names[0]}\b.* = " if names[-1] == "runTest" else rf"def {names[-1]}\b"
    return path.exists() and re.search(wanted, path.read_text(), re.MULTILINE) is not None


def sample(tests: Iterable[Heavy], seed: str, fraction: float = FRACTION) -> set[str]:
    """Chooses at least one test of each kind.

    Args:
        tests: All heavy tests.
        seed: What decides; the same one gives the same sample of the same tests.
        fraction: How much of each subject, by cost.
    """
    of_subject: dict[str, list[Heavy]] = defaultdict(list)
    of_other: dict[str, list[Heavy]] = defaultdict(list)
    for test in sorted(tests, key=lambda test: test.name):
        of_subject[test.subject].append(test)
        for kind in test.others:
            of_other[kind].append(test)
    chosen = {test.name for subject, members in of_subject.items() for test in _of_subject(subject, members, seed, fraction)}
    for kind in sorted(of_other):
        members = of_other[kind]
        if not any(test.name in chosen for test in members):
            chosen.add(random.Random(f"{seed} {kind}").choice(_candidates(members)).name)
    return chosen


def each_value(cases: Sequence[Mapping[str, Hashable]], seed: str) -> list[int]:
    """Chooses cases that have each value of each parameter at least once; returns their places, in order.

    Args:
        cases: The parameters of each case. They are not distinguished by how values combine.
        seed: What decides among cases that have as many values that none before has.
    """
    left = {value for case in cases for value in case.items()}
    order = random.Random(seed).sample(range(len(cases)), len(cases))
    chosen: list[int] = []
    while left:
        chosen.append(max(order, key=lambda place: len(left & cases[place].items())))
        left -= cases[chosen[-1]].items()
    return sorted(chosen)


def turn_of(seed: str, of: int = TURNS) -> int:
    """Returns the number, from 1 to `of`, of the tests with such a mark `in_turn` that a run of all tests runs."""
    return 1 + int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big") % of


def _of_subject(subject: str, members: Sequence[Heavy], seed: str, fraction: float) -> list[Heavy]:
    """The first in a random order, and what follows as long as there is room. One of twice the cost is half as often first."""
    chance = random.Random(f"{seed} {subject}")
    order = sorted(_candidates(members), key=lambda test: chance.expovariate(1 / test.cost))
    chosen, room = [order[0]], fraction * sum(test.cost for test in members) - order[0].cost
    for test in order[1:]:
        if test.cost <= room:
            chosen.append(test)
            room -= test.cost
    return chosen


def _candidates(members: Sequence[Heavy]) -> Sequence[Heavy]:
    """Those that may represent the others: all that are not too dear, or the cheapest."""
    cheapest = min(test.cost for test in members)
    return [test for test in members if test.cost <= max(MAX_FIRST_COST, cheapest)]
