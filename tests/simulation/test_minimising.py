"""A failing schedule is made smaller, and told as a short story."""

from dataclasses import replace

from tests.simulation.planting import Change, planted

from headrace.simulation.__main__ import describe
from headrace.simulation.drawing import PROFILES, draw
from headrace.simulation.minimising import minimised, smaller
from headrace.simulation.scale import SMALL
from headrace.simulation.simulating import simulate

AT_THE_VOTE = Change(
    "headrace.gateway.core.sinks.commit_log:CommitLog.decision",
    "return Decision.ABORT if self.closed or (left_over and not is_kept) else Decision.OPEN",
    "return Decision.COMMIT if prepared else Decision.OPEN",
)


def test_a_failing_schedule_becomes_small_and_still_fails_in_the_same_way() -> None:
    with planted(AT_THE_VOTE):
        # One that fails without any of its faults, too.
        drawn = (draw(str(seed), scale=SMALL) for seed in range(1, 60))
        schedule = next(
            each
            for each in drawn
            if each.faults and "early-commit" in simulate(replace(each, faults=())).kinds & simulate(each).kinds
        )
        violation = simulate(schedule).violations[0]
        small = minimised(schedule, violation, max_runs=40)
        result = simulate(small, traced=True)
    assert violation.kind in result.kinds
    assert small.faults == ()
    assert len(small.queries) == len(small.sources) == 1
    assert any("writes commits/0" in line for line in result.story)
    assert any(" VIOLATION " in line for line in result.story)
    assert len(result.story) < len(result.lines)
    assert not simulate(small).violations


def test_smaller_schedules_can_all_be_run() -> None:
    for profile in PROFILES:
        drawn = draw("8", profile)
        for schedule in smaller(replace(drawn, conditions=replace(drawn.conditions, messages=3, produce_s=0.1, fault_s=0.2))):
            assert {fault.who for fault in schedule.faults} <= {"", *schedule.roles()}
            assert all(query.sources and query.sinks for query in schedule.queries)


def test_a_schedule_is_described_in_a_few_lines() -> None:
    text = "\n".join(describe(draw("9", "sinks")))
    assert "store: a two-phase sink of" in text
    assert "query0: reads log0" in text
