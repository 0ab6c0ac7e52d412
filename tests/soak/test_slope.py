"""A line through memory: a leak is found, and noise, steps and saw-teeth are not taken for one."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.laboratory.soak.slope import MIN_BLOCKS, Verdict, fit, judge

BOUND = 8.0
SECONDS = 1200
TIMES = [2.0 * number for number in range(SECONDS // 2)]
SEEDS = st.integers(0, 2**32)


def series(at: Callable[[float], float], seed: int = 0, noise: float = 0.0) -> list[float]:
    draw = random.Random(seed)
    return [100 + at(time_s) + draw.gauss(0, noise) for time_s in TIMES]


def verdict(values: list[float], bound: float = BOUND) -> Verdict:
    return judge(fit(TIMES, values), bound)


@given(seed=SEEDS, noise=st.floats(0, 1))
def test_noise_is_flat(seed: int, noise: float) -> None:
    assert verdict(series(lambda _: 0.0, seed, noise)) is Verdict.FLAT


@given(seed=SEEDS, noise=st.floats(0, 1), per_hour=st.floats(2.5 * BOUND, 1000))
def test_a_leak_is_found_whatever_the_noise(seed: int, noise: float, per_hour: float) -> None:
    values = series(lambda time_s: per_hour * time_s / 3600, seed, noise)
    assert verdict(values) is Verdict.GROWS
    slope = fit(TIMES, values)
    assert slope is not None
    assert slope.low <= slope.per_hour <= slope.high
    assert slope.per_hour == pytest.approx(per_hour, abs=BOUND)


@given(seed=SEEDS, noise=st.floats(0, 1), per_hour=st.floats(-1000, 0.5 * BOUND))
def test_what_grows_by_less_than_the_bound_is_flat(seed: int, noise: float, per_hour: float) -> None:
    assert verdict(series(lambda time_s: per_hour * time_s / 3600, seed, noise)) is Verdict.FLAT


@given(at=st.floats(0, SECONDS), height=st.floats(-500, 500), seed=SEEDS, noise=st.floats(0, 0.5))
def test_a_step_is_no_growth(at: float, height: float, seed: int, noise: float) -> None:
    assert verdict(series(lambda time_s: height * (time_s >= at), seed, noise)) is not Verdict.GROWS


@given(first=st.floats(0, SECONDS), second=st.floats(0, SECONDS), height=st.floats(0, 500))
def test_two_steps_are_no_growth(first: float, second: float, height: float) -> None:
    steps = series(lambda time_s: height * ((time_s >= first) + (time_s >= second)))
    assert verdict(steps) is not Verdict.GROWS


def test_a_staircase_is_growth() -> None:
    assert verdict(series(lambda time_s: 4 * (time_s // 120))) is Verdict.GROWS


@given(period=st.floats(5, SECONDS / 4), height=st.floats(0, 200), phase=st.floats(0, 1), seed=SEEDS)
def test_a_saw_tooth_is_no_growth(period: float, height: float, phase: float, seed: int) -> None:
    assert verdict(series(lambda time_s: height * ((time_s / period + phase) % 1), seed, 0.2)) is not Verdict.GROWS


@given(period=st.floats(5, 40), height=st.floats(0, 20), per_hour=st.floats(10 * BOUND, 1000))
@settings(max_examples=50)
def test_a_leak_under_a_saw_tooth_is_found(period: float, height: float, per_hour: float) -> None:
    values = series(lambda time_s: per_hour * time_s / 3600 + height * ((time_s / period) % 1), 1, 0.2)
    assert verdict(values) is Verdict.GROWS


def test_what_fills_up_and_stays_is_no_growth() -> None:
    assert verdict(series(lambda time_s: 50 * (1 - math.exp(-time_s / 100)))) is not Verdict.GROWS


def test_a_few_measurements_say_nothing() -> None:
    for count in range(MIN_BLOCKS):
        assert judge(fit(TIMES[:count], [float(number) for number in range(count)]), BOUND) is Verdict.TOO_SHORT
    assert fit([1.0] * 50, [1.0] * 50) is None, "all at the same time"


@given(seed=SEEDS, noise=st.floats(0, 5), factor=st.floats(0.1, 10), shift=st.floats(0, 10_000))
@settings(max_examples=30)
def test_units_and_the_beginning_of_time_make_no_difference(seed: int, noise: float, factor: float, shift: float) -> None:
    values = series(lambda time_s: time_s / 60, seed, noise)
    one, other = fit(TIMES, values), fit([time_s + shift for time_s in TIMES], [factor * value for value in values])
    assert one is not None
    assert other is not None
    for name in ("per_hour", "low", "high"):
        assert getattr(other, name) == pytest.approx(factor * getattr(one, name), rel=1e-3, abs=1e-3)
