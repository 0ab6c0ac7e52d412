"""The seed decides on every kill."""

from itertools import islice

import pytest

from headrace.laboratory.chaos import Role
from headrace.laboratory.chaos.schedule import How, Strike, schedule


def _victims(strike: Strike) -> list[Role]:
    return [*strike.first, *([strike.second] if strike.second else [])]


@pytest.mark.parametrize("seed", range(20))
def test_each_round_kills_everybody_once(seed: int) -> None:
    victims = [role for strike in islice(schedule(seed), 40) for role in _victims(strike)]
    rounds = [victims[at : at + len(Role)] for at in range(0, len(victims) - len(Role), len(Role))]
    assert all(sorted(each) == sorted(Role) for each in rounds)


def test_some_are_killed_alone_some_at_once_and_some_while_another_recovers() -> None:
    strikes = list(islice(schedule(1), 100))
    assert {(len(strike.first), strike.second is not None) for strike in strikes} == {(1, False), (2, False), (1, True)}


def test_moments_are_within_seconds() -> None:
    strikes = list(islice(schedule(1), 100))
    assert all(0 <= strike.pause_s <= 2 for strike in strikes)
    assert all(0 <= strike.second_after_s <= 6 for strike in strikes)
    assert len({strike.pause_s for strike in strikes}) == 100


def test_a_seed_means_the_same_again() -> None:
    assert list(islice(schedule(7), 50)) == list(islice(schedule(7), 50))
    assert len({tuple(islice(schedule(seed), 5)) for seed in range(20)}) == 20


def test_a_driver_alone_is_killed_or_meets_another_one() -> None:
    strikes = list(islice(schedule(1), 300))
    assert {strike.how for strike in strikes if strike.first == (Role.DRIVER,) and strike.second is None} == set(How)
    assert {strike.how for strike in strikes if strike.first != (Role.DRIVER,) or strike.second} == {How.KILL}
