"""A channel is dialled again once its calls have failed for a while, and never while they reach the other side."""

from hypothesis import given
from hypothesis import strategies as st
from tests.virtual_clock import VirtualClock

from headrace.contract import clock
from headrace.contract.redial import REDIAL_S, Redial

STEPS = st.lists(st.one_of(st.sampled_from(["use", "fail", "forget"]), st.floats(min_value=0, max_value=3 * REDIAL_S)))


@given(STEPS)
def test_a_channel_is_replaced_only_if_it_failed_and_is_old_and_each_is_returned_once(steps: list[str | float]) -> None:
    dialled: list[int] = []
    returned: list[int] = []

    def dial() -> int:
        dialled.append(len(dialled))
        return dialled[-1]

    with clock.use(VirtualClock()) as now:
        channel, known, since = Redial(dial), None, 0.0
        for step in steps:
            if isinstance(step, float):
                now.advance(step)
            elif step == "use":
                used = channel.current()
                if known is None:
                    known, since = used, clock.monotonic()
                assert used == known == dialled[-1]
            else:
                replaced = channel.failed() if step == "fail" else channel.forget()
                is_due = known is not None and (step == "forget" or clock.monotonic() - since >= REDIAL_S)
                assert replaced == (known if is_due else None)
                if replaced is not None:
                    returned.append(replaced)
                    known = None
    assert returned == dialled[: len(returned)]
    assert len(dialled) - len(returned) == (known is not None)
