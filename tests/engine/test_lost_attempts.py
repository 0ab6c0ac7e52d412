"""States on executors of their own, where attempts are lost with all their work done."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from tests.engine.lost_attempts import KEYS, NUMBERS

ROOT = Path(__file__).parents[2]


def test_states_are_those_of_the_attempts_that_count(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.engine.lost_attempts", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=380, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stderr[-4000:]
    chains, states = map(dict, json.loads(lines[0].removeprefix("RESULT ")))
    assert sorted(chains) == sorted(states) == list(range(KEYS))
    for key, links in chains.items():
        assert [count for count, _, _ in links] == list(range(1, NUMBERS // KEYS + 1))
        assert links[0][1] == ""
        assert all(after == before for (_, _, after), (_, before, _) in pairwise(links)), "a state comes from a lost attempt"
        assert states[key] == [len(links), links[-1][2]]
