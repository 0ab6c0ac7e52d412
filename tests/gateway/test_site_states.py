"""Whole sites, drawn at random: what is well has no problem, and a fault has one first cause and a remedy that fits."""

from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.faulty_sites import FAULTS, Fault, driver_killed, site

from headrace.gateway.core import Kind, Problem, problems
from headrace.protocol.v1 import admin_pb2 as pb

STUCK_AFTER_MS, SLOW_AFTER_MS = 900_000, 5_000
SITES = st.fixed_dictionaries(
    {"sources": st.integers(1, 3), "partitions": st.integers(1, 3), "pipelines": st.integers(1, 3), "is_deployed": st.booleans()}
)


def found(status: pb.GetStatusResponse) -> list[Problem]:
    return problems(status, STUCK_AFTER_MS, SLOW_AFTER_MS)


@given(SITES)
def test_a_site_that_is_well_has_no_problem(drawn: dict[str, int]) -> None:
    assert found(site(**drawn)) == []  # type: ignore[arg-type]


@given(SITES, st.data())
def test_a_fault_has_one_first_cause_and_a_remedy_that_fits(drawn: dict[str, int], data: st.DataObject) -> None:
    status = site(**drawn)  # type: ignore[arg-type]
    fault = data.draw(st.sampled_from([*FAULTS, driver_killed(is_deployed=bool(drawn["is_deployed"]))]), label="fault")
    fault.inject(status)
    check(status, fault)


def check(status: pb.GetStatusResponse, fault: Fault) -> None:
    listed = [problem for problem in found(status) if problem.is_fault]
    roots = {problem.root or problem.part for problem in listed}
    assert roots == {fault.root}
    for problem in listed:
        assert problem.kind is fault.kind
        assert fault.remedy in problem.remedy
        assert problem.cause
        if "correct the function" not in fault.remedy:
            assert "application" not in problem.remedy
        if fault.kind not in (Kind.PIPELINE_AWAY, Kind.PIPELINE_DETACHED):
            assert "headrace forget" not in problem.remedy


@given(SITES, st.data())
def test_a_pause_beside_a_fault_is_no_fault_and_hides_none(drawn: dict[str, int], data: st.DataObject) -> None:
    status = site(**drawn)  # type: ignore[arg-type]
    fault = data.draw(st.sampled_from([one for one in FAULTS if one.name != "nothing_connected"]), label="fault")
    pause = pb.PauseStatus(part=f"sink out{drawn['pipelines'] - 1}", by="me", age_ms=5_000)
    status.sinks[-1].paused.CopyFrom(pause)
    assert not any(problem.is_fault for problem in found(status))
    fault.inject(status)
    check(status, fault)


@given(SITES, st.lists(st.sampled_from(FAULTS), min_size=2, max_size=4, unique_by=lambda one: one.root))
def test_several_faults_name_a_root_of_theirs_for_every_part(drawn: dict[str, int], faults: list[Fault]) -> None:
    status = site(**drawn)  # type: ignore[arg-type]
    if any(fault.name == "nothing_connected" for fault in faults):
        return
    for fault in faults:
        fault.inject(status)
    listed = found(status)
    assert listed
    parts = [problem.part for problem in listed]
    assert len(parts) == len(set(parts))
    for index, problem in enumerate(listed):
        assert (problem.root or problem.part) in {fault.root for fault in faults}
        assert not problem.root or problem.root in parts[:index], "roots come before what follows from them"


@given(SITES, st.integers(0, 7_000), st.sampled_from([pb.PROCESS_STATE_KIND_STARTS, pb.PROCESS_STATE_KIND_WAITS]))
def test_a_start_is_no_fault(drawn: dict[str, int], age_ms: int, state: "pb.ProcessStateKind.ValueType") -> None:
    """The supervisor has just started everything: nothing is connected, and the gateway knows nothing yet."""
    whole = site(**drawn)  # type: ignore[arg-type]
    status = pb.GetStatusResponse(gateway=pb.GatewayStatus(uptime_ms=age_ms, unconnected_ms=age_ms))
    assert found(status) == []
    for deployment in whole.deployments:
        for connector in deployment.connectors:
            connector.unconnected_ms = age_ms
        for process in deployment.processes:
            process.state, process.state_age_ms = state, age_ms
        status.deployments.append(deployment)
    assert not any(problem.is_fault for problem in found(status))


@given(SITES, st.integers(0, 7_000))
def test_a_rolling_restart_of_an_application_is_no_fault(drawn: dict[str, int], age_ms: int) -> None:
    status = site(**{**drawn, "is_deployed": True})  # type: ignore[arg-type]
    pipeline = status.pipelines[0]
    pipeline.attached, pipeline.state, pipeline.idle_ms = False, pb.PIPELINE_STATE_DETACHED, age_ms
    pipeline.ClearField("batch_ms")
    del status.sinks[0].writers[:]
    for stream in status.streams:
        stream.holders.add(pipeline=pipeline.pipeline, state=pipeline.state, held_ms=age_ms)
    for process in status.deployments[0].processes:
        if pipeline.pipeline in process.pipelines:
            process.state, process.state_age_ms = pb.PROCESS_STATE_KIND_STARTS, age_ms
    assert not any(problem.is_fault for problem in found(status))
