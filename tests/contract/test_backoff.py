from hypothesis import given
from hypothesis import strategies as st

from headrace.contract.backoff import Backoff


@given(first=st.floats(0.001, 10), longest=st.floats(10, 1000), jitter=st.floats(0, 1), attempts=st.integers(0, 2_000))
def test_waits_double_up_to_the_longest(first: float, longest: float, jitter: float, attempts: int) -> None:
    backoff = Backoff(first, longest, jitter, attempts)
    bound = min(longest, first * 2.0 ** min(attempts, 1000))
    assert bound * (1 - jitter) * 0.999 <= backoff.next() <= bound * 1.001
    assert backoff.attempts == attempts + 1


def test_waits_differ_and_start_again_after_a_success() -> None:
    backoff = Backoff(0.1, 5.0)
    waits = [backoff.next() for _ in range(50)]
    assert len(set(waits)) == 50
    assert max(waits) > 0.1
    backoff.reset()
    assert backoff.next() <= 0.1
