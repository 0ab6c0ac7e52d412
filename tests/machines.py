"""Runs model-based machines of Hypothesis over real systems, for a bounded time and from a seed that is printed."""

from typing import Any

import hypothesis
import pytest
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

STEPS = 30
_SEEDS = 5


def run(machine: type[RuleBasedStateMachine], config: pytest.Config, seconds_per_example: float) -> None:
    """Runs as many examples of a machine as are expected to take `--machine-seconds`, at least one.

    Args:
        machine: The machine.
        config: Has the options.
        seconds_per_example: How long an example of `STEPS` steps takes, about.
    """
    seed = int(config.getoption("machine_seed"), 16)
    print(f"{machine.__name__}: --machine-seed {seed:08x}")
    examples = max(1, round(config.getoption("machine_seconds") / seconds_per_example))
    _run(machine, seed, max_examples=examples)


def find_fault(machine: type[RuleBasedStateMachine], examples: int = 20) -> None:
    """Runs a machine over a system with a fault, until it fails; it does not look for a shorter way to the failure.

    A run that finds nothing is followed by one from another seed: how fast a real system is decides what the steps meet.

    Raises:
        AssertionError: It has found the fault, within `examples` examples from one of the seeds.
    """
    again = 0
    for seed in range(_SEEDS):
        try:
            _run(machine, seed, max_examples=examples, phases=[hypothesis.Phase.generate], report_multiple_bugs=False)
        except hypothesis.errors.FlakyFailure as flaky:
            # Real systems decide what happens between two steps, so that the same steps need not fail twice,
            found = flaky.subgroup(AssertionError)
            if found is None:
                raise
            raise _first(found) from flaky
        except hypothesis.errors.FlakyStrategyDefinition:
            # or fail earlier the second time, which Hypothesis takes for another fault than the one that it has found.
            again += 1
    if again == _SEEDS:
        raise RuntimeError(f"{machine.__name__} failed at another step each time it was run again")


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Returns the first error of a group that is no group."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


def _run(machine: type[RuleBasedStateMachine], seed: int, **more: Any) -> None:
    settings: dict[str, Any] = {"stateful_step_count": STEPS, "deadline": None, "database": None, **more}
    checks = list(hypothesis.HealthCheck)
    run_state_machine_as_test(
        hypothesis.seed(seed)(machine), settings=hypothesis.settings(suppress_health_check=checks, print_blob=True, **settings)
    )
