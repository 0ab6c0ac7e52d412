"""What is wrong in a status: each kind of problem, its first cause, and that it is gone with its cause."""

from copy import deepcopy
from typing import Any

import pytest

from headrace.gateway.core import Kind, Problem, problems
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1 import connector_pb2
from headrace.protocol.v1.metrics_pb2 import (
    RUN_FAULT_KIND_BATCH_FAILED,
    RUN_FAULT_KIND_EXECUTORS_LOST,
    RUN_FAULT_KIND_FUNCTION_RUNS,
    RunFault,
)
from headrace.protocol.v1.sink_pb2 import Transaction

STUCK_AFTER_MS = 900_000
SLOW_AFTER_MS = 5_000
RUNNING = connector_pb2.CONNECTOR_STATE_RUNNING
DEGRADED = connector_pb2.CONNECTOR_STATE_DEGRADED
WAITING = connector_pb2.CONNECTOR_STATE_WAITING
AGE_MS = 3_600_000
"""How old sessions are."""


def stream(**fields: Any) -> pb.StreamStatus:
    """A stream that is sent and read, unless the fields say otherwise."""
    well = {"stream": "orders/0", "state": pb.STREAM_STATE_LIVE, "instance": "shop", "last_instance": "shop", "readers": 1}
    return pb.StreamStatus(**{**well, "session": "s1", **fields})


def session(**fields: Any) -> pb.SessionStatus:
    return pb.SessionStatus(**{"session": "s1", "connector": "kafka", "instance": "shop", "age_ms": AGE_MS, **fields})


def sink_session(**fields: Any) -> pb.SinkSessionStatus:
    return pb.SinkSessionStatus(**{"session": "k1", "sink": "out", "instance": "writer", "age_ms": AGE_MS, **fields})


def pipeline(**fields: Any) -> pb.PipelineStatus:
    well = {"pipeline": "totals", "run": 1, "attached": True, "state": pb.PIPELINE_STATE_ATTACHED, "patterns": ["orders/*"]}
    return pb.PipelineStatus(**{**well, **fields})


def sink(**fields: Any) -> pb.SinkStatus:
    return pb.SinkStatus(**{"sink": "out", "instances": ["writer"], "writers": ["totals"], **fields})


def status(**parts: Any) -> pb.GetStatusResponse:
    """A status in which all is well, unless parts are replaced."""
    well = {
        "streams": [stream()],
        "sessions": [session()],
        "pipelines": [pipeline()],
        "sinks": [sink()],
        "sink_sessions": [sink_session()],
    }
    told = pb.GetStatusResponse(**{**well, **parts})
    known = {one.session for one in told.sessions}
    for one in told.streams:
        one.session = one.session if one.session in known else ""
    return told


def found(of: pb.GetStatusResponse) -> dict[str, Problem]:
    """The problems of a status, by part."""
    listed = problems(of, STUCK_AFTER_MS, SLOW_AFTER_MS)
    assert len({problem.part for problem in listed}) == len(listed)
    for index, problem in enumerate(listed):
        assert problem.cause, problem
        assert problem.remedy, problem
        assert not problem.root or problem.root in {earlier.part for earlier in listed[:index]}, problem
    return {problem.part: problem for problem in listed}


def kinds(of: pb.GetStatusResponse) -> dict[str, tuple[Kind, str]]:
    """The kind and the root of each problem, by part."""
    return {part: (problem.kind, problem.root) for part, problem in found(of).items()}


def reported(state: Any, reason: str = "", age_ms: int = 5_000, errors: tuple[tuple[str, int], ...] = ()) -> pb.ReportedStatus:
    listed = [connector_pb2.ConnectorError(message=message, age_ms=age) for message, age in errors]
    return pb.ReportedStatus(state=state, state_age_ms=age_ms, reason=reason, errors=listed)


def holder(state: Any = pb.PIPELINE_STATE_ATTACHED, held_ms: int = 1_000) -> pb.AcknowledgementHolder:
    return pb.AcknowledgementHolder(pipeline="totals", state=state, held_ms=held_ms)


def test_a_gateway_with_nothing_or_with_all_it_needs_has_no_problem() -> None:
    assert found(pb.GetStatusResponse()) == {}
    assert found(status()) == {}
    assert found(status(streams=[stream(holders=[holder()], lag_messages=9)], pipelines=[pipeline(batch_ms=9_000)])) == {}


def test_a_gateway_that_stops() -> None:
    assert kinds(pb.GetStatusResponse(gateway=pb.GatewayStatus(draining=True))) == {"gateway": (Kind.STOPPING, "")}


@pytest.mark.parametrize(("jump_ms", "told"), [(3_600_000, "forward by 3600.0 s"), (-1_500, "back by 1.5 s")])
def test_a_clock_that_was_set(jump_ms: int, told: str) -> None:
    jumped = pb.GatewayStatus(clock_jump_ms=jump_ms, clock_jump_age_ms=4_000)
    listed = found(status(gateway=jumped))
    assert kinds(status(gateway=jumped)) == {"gateway": (Kind.CLOCK_JUMPED, "")}
    assert told in listed["gateway"].cause
    assert listed["gateway"].age_ms == 4_000


# Connectors


def test_a_table_that_cannot_be_read_first_is_named_with_what_waits_and_one_that_is_read_is_not() -> None:
    table = pb.AwaitedTable(table="names", held=["orders/*"], waits_for=["names/0, which has no connector"], age_ms=20_000)
    well = {"sessions": [session(streams=1)]}
    assert not found(status(pipelines=[pipeline(awaited_tables=[table])], **well))
    table.is_blocked = True
    problem = found(status(pipelines=[pipeline(awaited_tables=[table])], **well))["pipeline totals"]
    assert (problem.kind, problem.age_ms) == (Kind.NOT_SENT, 20_000)
    assert problem.cause == "it reads table names before orders/*, and waits for names/0, which has no connector"
    table.age_ms = 10
    assert not found(status(pipelines=[pipeline(awaited_tables=[table])], **well))


def test_a_source_that_only_replays_send_is_no_fault_between_them() -> None:
    """A wrong pattern is still listed; a connector of the deployment that sends the source, and is not there, is a fault."""
    unmatched = pb.UnmatchedPattern(pattern="again/*", age_ms=20_000)
    reads = pipeline(patterns=["orders/*", "again/*"], unmatched=[unmatched])
    errors = pb.SupervisedConnector(name="errors", instance="errors", sink="out", replays="out")
    deployed = pb.DeploymentStatus(deployment="deploy.toml", connectors=[errors])
    well: dict[str, Any] = {"pipelines": [reads], "sessions": [session(streams=1)]}
    listed = found(status(**well, deployments=[deployed]))
    assert {part: (one.kind, one.is_fault) for part, one in listed.items()} == {"source again": (Kind.REPLAY_AWAITED, False)}
    assert "headrace dead-letters replay out --source again" in listed["source again"].remedy
    # A stream of an earlier replay is in the checkpoint, and the gateway was restarted.
    earlier = stream(stream="again/1.jsonl", state=pb.STREAM_STATE_DETACHED, instance="", last_instance="", session="")
    listed = found(status(pipelines=[pipeline(patterns=["again/*"])], streams=[earlier], deployments=[deployed]))
    assert {part: one.kind for part, one in listed.items()} == {"source again": Kind.REPLAY_AWAITED}
    earlier.lag_messages = 1
    assert found(status(pipelines=[reads], streams=[earlier], deployments=[deployed]))["source again"].is_fault
    elsewhere = deepcopy(deployed)
    elsewhere.connectors[0].replays = "others"
    sends = deepcopy(deployed)
    sends.connectors.add(name="again", instance="again", source="again", unconnected_ms=60_000)
    for other in ([], [elsewhere], [sends]):
        assert any(problem.is_fault for problem in found(status(**well, deployments=other)).values()), other


def test_a_silent_connector_comes_before_what_it_has_reported() -> None:
    degraded = reported(connector_pb2.CONNECTOR_STATE_DEGRADED, "half of it fails")
    silent = session(peer="ipv4:192.0.2.7:4711", silent_ms=7_000, reported=degraded)
    listed = found(status(sessions=[silent]))
    assert kinds(status(sessions=[silent])) == {
        "connector shop": (Kind.CONNECTOR_SILENT, ""),
        "stream orders/0": (Kind.CONNECTOR_SILENT, "connector shop"),
    }
    assert listed["connector shop"].age_ms == 7_000
    assert "ipv4:192.0.2.7:4711" in listed["connector shop"].cause


def test_a_silent_sink_degrades_what_writes_to_it() -> None:
    silent = sink_session(silent_ms=7_000)
    root = "connector writer of sink out"
    assert kinds(status(sink_sessions=[silent])) == {
        root: (Kind.CONNECTOR_SILENT, ""),
        "sink out": (Kind.CONNECTOR_SILENT, root),
        "pipeline totals": (Kind.CONNECTOR_SILENT, root),
    }


def test_a_connector_that_has_left_is_named_once_as_the_root_of_all_its_streams() -> None:
    away = [stream(stream=f"orders/{n}", state=pb.STREAM_STATE_DETACHED, instance="", state_age_ms=7_000) for n in range(3)]
    listed = found(status(streams=away, sessions=[]))
    assert list(listed) == ["connector shop", "stream orders/0", "stream orders/1", "stream orders/2"]
    assert {problem.cause for problem in listed.values()} == {"its session has ended"}
    assert {problem.age_ms for problem in listed.values()} == {7_000}
    assert listed["stream orders/2"].root == "connector shop"


def test_a_connector_that_has_never_been_here_is_known_by_its_source() -> None:
    away = stream(state=pb.STREAM_STATE_DETACHED, instance="", last_instance="")
    assert kinds(status(streams=[away], sessions=[])) == {
        "source orders": (Kind.CONNECTOR_AWAY, ""),
        "stream orders/0": (Kind.CONNECTOR_AWAY, "source orders"),
    }


def deployment(**fields: Any) -> pb.DeploymentStatus:
    """A deployment with a connector whose process fails."""
    connector = {"name": "c", "instance": "c", "failure": "ended with exit code 1: wrong password", "failing_ms": 9_000, **fields}
    return pb.DeploymentStatus(deployment="deploy.toml", connectors=[pb.SupervisedConnector(**connector)])


def process(**fields: Any) -> pb.ProcessState:
    """The process of that connector, which its supervisor has just started."""
    return pb.ProcessState(**{"name": "c", "state": pb.PROCESS_STATE_KIND_STARTS, "state_age_ms": 900, **fields})


@pytest.mark.parametrize("state", [pb.PROCESS_STATE_KIND_STARTS, pb.PROCESS_STATE_KIND_WAITS])
def test_what_a_supervisor_starts_again_is_no_fault(state: pb.ProcessStateKind.ValueType) -> None:
    deployed = [
        deployment(source="a", failure="", unconnected_ms=700),
        deployment(sink="out", instance="i", failure="", unconnected_ms=700),
    ]
    for each in deployed:
        each.processes.append(process(state=state))
    away = stream(stream="a/0", state=pb.STREAM_STATE_DETACHED, instance="")
    gone = sink(instances=[], writers=["totals"])
    listed = found(status(streams=[away], sessions=[], sinks=[gone], sink_sessions=[], deployments=deployed))
    assert {part: (problem.kind, problem.is_fault) for part, problem in listed.items()} == {
        "connector c": (Kind.PROCESS_STARTS, False),
        "stream a/0": (Kind.PROCESS_STARTS, False),
        "connector i of sink out": (Kind.PROCESS_STARTS, False),
        "sink out": (Kind.PROCESS_STARTS, False),
        "pipeline totals": (Kind.PROCESS_STARTS, False),
    }


@pytest.mark.parametrize(
    "told",
    [{"state": pb.PROCESS_STATE_KIND_RUNS}, {"reason": "ended with exit code 1"}, {"state_age_ms": 15_000}],
    ids=["it lost its session", "it fails", "it takes too long"],
)
def test_what_has_no_session_for_another_reason_is_a_fault(told: dict[str, Any]) -> None:
    deployed = deployment(source="a", failure="", unconnected_ms=700)
    deployed.processes.append(process(**told))
    away = stream(stream="a/0", state=pb.STREAM_STATE_DETACHED, instance="")
    listed = found(status(streams=[away], sessions=[], deployments=[deployed]))
    assert listed["stream a/0"].is_fault


@pytest.mark.parametrize("last_instance", ["", "c"], ids=["it never had a session", "it had one"])
def test_a_process_that_runs_without_a_session_is_not_connected_whether_it_ever_was(last_instance: str) -> None:
    """Nobody knows for certain what it was before, so the cause only names what holds now."""
    deployed = deployment(source="a", failure="", unconnected_ms=60_000)
    deployed.processes.append(process(state=pb.PROCESS_STATE_KIND_RUNS))
    away = stream(stream="a/0", state=pb.STREAM_STATE_DETACHED, instance="", last_instance=last_instance)
    listed = found(status(streams=[away], sessions=[], deployments=[deployed]))
    assert {problem.kind for problem in listed.values()} == {Kind.NOT_CONNECTED}
    assert {problem.cause for problem in listed.values()} == {"the process of c in deploy.toml runs, and is not connected"}
    assert listed["stream a/0"].root == "connector c"


def test_what_an_unconnected_process_has_logged_last_is_in_the_cause() -> None:
    says = "the certificate of the gateway is for another name"
    deployed = deployment(source="a", failure="", unconnected_ms=60_000)
    deployed.processes.append(process(state=pb.PROCESS_STATE_KIND_RUNS, last_warning=says))
    away = stream(stream="a/0", state=pb.STREAM_STATE_DETACHED, instance="")
    listed = found(status(streams=[away], sessions=[], deployments=[deployed]))
    assert listed["stream a/0"].cause == f"the process of c in deploy.toml runs, and is not connected: it says {says}"
    parked = stream(stream="a/0", state=pb.STREAM_STATE_PARKED, readers=0)
    late = running(STARTS, state_age_ms=120_000, last_warning=says)
    listed = found(status(streams=[parked], pipelines=[], sinks=[], deployments=[late]))
    assert listed["stream a/0"].cause.endswith(f"runs as process 7, and has not attached: it says {says}")


@pytest.mark.parametrize("last_instance", ["", "c", "an-earlier-name"])
def test_why_the_process_of_a_source_fails_is_the_cause_of_its_streams(last_instance: str) -> None:
    away = [stream(stream=f"{name}/0", state=pb.STREAM_STATE_DETACHED, instance="", last_instance=last_instance) for name in "ab"]
    listed = found(status(streams=[away[0]], sessions=[], deployments=[deployment(source="a")]))
    assert {part: (problem.kind, problem.root) for part, problem in listed.items()} == {
        "connector c": (Kind.CONNECTOR_FAILS, ""),
        "stream a/0": (Kind.CONNECTOR_FAILS, "connector c"),
    }
    assert {problem.cause for problem in listed.values()} == {"its process fails: ended with exit code 1: wrong password"}
    assert {problem.age_ms for problem in listed.values()} == {9_000}
    # It says nothing about the streams of another source.
    other = kinds(status(streams=[away[1]], sessions=[], deployments=[deployment(source="a", instance="d")]))
    assert other["stream b/0"][0] is Kind.CONNECTOR_AWAY


def running(state: int, **fields: Any) -> pb.DeploymentStatus:
    """A deployment with the process of an application, which reads a/* as pipeline p."""
    process = {"name": "app", "kind": pb.PROCESS_KIND_APPLICATION, "pipelines": ["p"], "reads": ["a/*"], "pid": 7, **fields}
    return pb.DeploymentStatus(deployment="deploy.toml", processes=[pb.ProcessState(state=state, **process)])  # type: ignore[arg-type]


STARTS, WAITS, RUNS = pb.PROCESS_STATE_KIND_STARTS, pb.PROCESS_STATE_KIND_WAITS, pb.PROCESS_STATE_KIND_RUNS
ENDED, STOPPED = pb.PROCESS_STATE_KIND_ENDED, pb.PROCESS_STATE_KIND_STOPPED


@pytest.mark.parametrize("state", [pb.PIPELINE_STATE_AWAY, pb.PIPELINE_STATE_DETACHED, pb.PIPELINE_STATE_AWAITED])
@pytest.mark.parametrize(
    ("process", "kind"),
    [
        (running(STARTS), Kind.PROCESS_STARTS),
        (running(WAITS), Kind.PROCESS_STARTS),
        (running(WAITS, reason="ended with exit code 1: no such table"), Kind.PIPELINE_FAILS),
        (running(STARTS, reason="ended with exit code 1: no such table"), Kind.PIPELINE_FAILS),
        (running(STARTS, state_age_ms=120_000), Kind.NOT_CONNECTED),
        (running(RUNS), Kind.NOT_CONNECTED),
        (running(ENDED), Kind.PIPELINE_ENDED),
        (running(STOPPED), Kind.PIPELINE_ENDED),
    ],
)
def test_health_never_says_to_forget_a_pipeline_whose_process_is_supervised(
    state: int, process: pb.DeploymentStatus, kind: Kind
) -> None:
    holder = pb.AcknowledgementHolder(pipeline="p", held_ms=60_000)
    absent = status(
        streams=[stream(stream="a/0", holders=[holder])], pipelines=[pipeline(pipeline="p", state=state)], deployments=[process]
    )
    problem = found(absent)["pipeline p"]
    assert problem.kind is kind
    assert "forget" not in problem.remedy
    assert problem.is_fault == (kind is not Kind.PROCESS_STARTS)
    # Another pipeline is not explained by it.
    other = status(
        streams=[stream(stream="a/0", holders=[pb.AcknowledgementHolder(pipeline="q", held_ms=60_000)])],
        pipelines=[pipeline(pipeline="q", state=state)],
        deployments=[process],
    )
    assert found(other)["pipeline q"].kind in (Kind.PIPELINE_AWAY, Kind.PIPELINE_DETACHED, Kind.PIPELINE_AWAITED)


@pytest.mark.parametrize(
    ("process", "expected"),
    [
        (running(STARTS), (Kind.PROCESS_STARTS, "pipeline p")),
        (running(STARTS, reads=[]), (Kind.PROCESS_STARTS, "pipeline p")),
        (running(STARTS, pipelines=[], reads=[]), (Kind.PROCESS_STARTS, "process app")),
        (running(WAITS, reason="killed by SIGKILL"), (Kind.PIPELINE_FAILS, "pipeline p")),
        (running(STARTS, reads=["b/*"]), (Kind.NOT_READ, "")),
        (running(RUNS), (Kind.NOT_READ, "")),
        (running(ENDED), (Kind.PIPELINE_ENDED, "pipeline p")),
        (running(ENDED, reads=[]), (Kind.NOT_READ, "")),
    ],
)
def test_a_stream_is_not_called_unread_while_its_reader_starts(process: pb.DeploymentStatus, expected: tuple[Kind, str]) -> None:
    parked = status(streams=[stream(stream="a/0", state=pb.STREAM_STATE_PARKED)], deployments=[process])
    assert kinds(parked)["stream a/0"] == expected


def test_a_process_that_starts_or_fails_is_listed_before_its_pipeline_is_known() -> None:
    assert kinds(status(deployments=[running(STARTS)])) == {"pipeline p": (Kind.PROCESS_STARTS, "")}
    assert kinds(status(deployments=[running(WAITS, reason="ended with exit code 1")])) == {
        "pipeline p": (Kind.PIPELINE_FAILS, "")
    }
    for quiet in (running(RUNS), running(ENDED), running(STOPPED)):
        assert not found(status(deployments=[quiet]))
    attached = pipeline(pipeline="p", state=pb.PIPELINE_STATE_ATTACHED)
    assert not found(status(pipelines=[attached], deployments=[running(WAITS, reason="of before", state_age_ms=1)]))


def test_why_the_process_of_a_sink_fails_is_the_cause_of_what_writes_to_it() -> None:
    absent = status(sinks=[sink(instances=[])], sink_sessions=[], deployments=[deployment(sink="out")])
    assert kinds(absent) == {
        "connector c of sink out": (Kind.CONNECTOR_FAILS, ""),
        "sink out": (Kind.CONNECTOR_FAILS, "connector c of sink out"),
        "pipeline totals": (Kind.CONNECTOR_FAILS, "connector c of sink out"),
    }


def test_a_process_that_fails_beside_others_of_its_sink_degrades_nothing_else() -> None:
    assert kinds(status(deployments=[deployment(sink="out")])) == {"connector c of sink out": (Kind.CONNECTOR_FAILS, "")}


def test_a_connector_with_a_session_works_whatever_its_supervisor_has_reported() -> None:
    assert found(status(deployments=[deployment(source="orders", instance="shop")])) == {}
    assert found(status(deployments=[deployment(sink="out", instance="writer")])) == {}
    # A sink's connector is another one, even if it has the same instance.
    assert list(found(status(deployments=[deployment(sink="other", instance="writer")]))) == ["connector writer of sink other"]


def test_a_connector_that_is_there_and_does_not_send_a_stream() -> None:
    assert kinds(status(streams=[stream(state=pb.STREAM_STATE_DETACHED, instance="")])) == {
        "stream orders/0": (Kind.NOT_SENT, "")
    }


def test_a_stream_that_has_stalled_is_named_before_what_its_connector_has_reported() -> None:
    stalled = stream(stalled_ms=25_000, lag_messages=2_000)
    listed = found(status(streams=[stalled, stream(stream="orders/1")]))
    assert list(listed) == ["stream orders/0"]
    told = listed["stream orders/0"]
    assert (told.kind, told.root, told.age_ms) == (Kind.SOURCE_STALLED, "", 25_000)
    assert told.cause == "it lags by 2,000 messages, and instance shop, which has credit, sends nothing of it"
    error = session(reported=running_with_error(5_000))
    assert kinds(status(sessions=[error], streams=[stalled]))["stream orders/0"] == (Kind.SOURCE_STALLED, "")
    # It is the root of a query that is stuck.
    stuck = status(streams=[stalled], pipelines=[pipeline(batch_ms=STUCK_AFTER_MS)])
    assert kinds(stuck)["pipeline totals"] == (Kind.SOURCE_STALLED, "stream orders/0")


@pytest.mark.parametrize(
    ("left", "told"), [({"lag_bytes": 1_500}, "1,500 bytes"), ({"latest_sequence": 9}, "everything up to sequence 9")]
)
def test_a_lag_is_told_in_the_units_that_the_connector_has(left: dict[str, int], told: str) -> None:
    assert f"it lags by {told}, and" in found(status(streams=[stream(stalled_ms=25_000, **left)]))["stream orders/0"].cause


def test_a_stream_that_nobody_reads_may_go_and_a_stream_that_has_ended_too() -> None:
    assert found(status(streams=[stream(state=pb.STREAM_STATE_DETACHED, instance="", readers=0)], sessions=[])) == {}
    assert found(status(streams=[stream(state=pb.STREAM_STATE_ENDED, instance="")], sessions=[])) == {}


@pytest.mark.parametrize("state", [DEGRADED, WAITING])
def test_what_a_connector_reports_is_the_cause_of_its_streams(state: Any) -> None:
    errors = (("of yesterday", 90_000), ("connection refused", 5_400), ("still refused", 10))
    listed = found(status(sessions=[session(reported=reported(state, "the broker is away", errors=errors))]))
    assert list(listed) == ["connector shop", "stream orders/0"]
    assert listed["stream orders/0"].cause == "the broker is away: connection refused"
    assert listed["stream orders/0"].root == "connector shop"
    assert listed["connector shop"].age_ms == 5_000


def test_a_connector_that_gives_no_reason_is_not_well_either() -> None:
    listed = found(status(sessions=[session(reported=reported(WAITING))]))
    assert listed["connector shop"].cause == "it reports that it waits for its system, and no reason"


def running_with_error(age_ms: int, name: str = "", running_ms: int = AGE_MS) -> pb.ReportedStatus:
    error = connector_pb2.ConnectorError(message="bad message", age_ms=age_ms, stream=name)
    return pb.ReportedStatus(state=RUNNING, state_age_ms=running_ms, errors=[error])


def test_an_error_of_a_connector_that_goes_on_counts_for_a_minute() -> None:
    for age_ms, expected in ((60_000, {"connector shop", "stream orders/0"}), (60_001, set())):
        assert found(status(sessions=[session(reported=running_with_error(age_ms))])).keys() == expected


@pytest.mark.parametrize(
    "over",
    [
        {"sessions": [session(age_ms=4_999, reported=running_with_error(5_000))]},
        {"sessions": [session(reported=running_with_error(5_000, running_ms=4_999))]},
        {"sessions": [session(reported=running_with_error(5_000, "orders/0"))], "streams": [stream(state_age_ms=4_999)]},
        {"sink_sessions": [sink_session(age_ms=4_999, reported=running_with_error(5_000))]},
        {"sink_sessions": [sink_session(success_age_ms=4_999, reported=running_with_error(5_000))]},
    ],
)
def test_an_error_is_over_once_its_connector_has_shown_that_it_works(over: Any) -> None:
    assert found(status(**over)) == {}


@pytest.mark.parametrize(
    "counts",
    [
        {"sessions": [session(reported=running_with_error(5_000, "orders/0"))], "streams": [stream(state_age_ms=5_000)]},
        {"sessions": [session(reported=running_with_error(5_000, "orders/1"))], "streams": [stream(state_age_ms=4_999)]},
        {"sink_sessions": [sink_session(success_age_ms=5_000, reported=running_with_error(5_000))]},
    ],
)
def test_an_error_counts_while_nothing_shows_that_it_is_over(counts: Any) -> None:
    assert Kind.CONNECTOR_REPORTS in {kind for kind, _ in kinds(status(**counts)).values()}


def test_a_sink_that_fails_is_the_cause_rather_than_the_error_that_its_connector_reports_too() -> None:
    failing = {
        "sinks": [sink(failure="instance writer: disk full")],
        "sink_sessions": [sink_session(reported=running_with_error(9))],
    }
    assert kinds(status(**failing)) == {
        "sink out": (Kind.SINK_FAILS, ""),
        "pipeline totals": (Kind.SINK_FAILS, "sink out"),
    }


# Streams


def test_a_lost_position_is_why_its_pipeline_stands_still() -> None:
    detail = "stream orders/0: the source no longer has the messages after 5"
    lost = stream(state=pb.STREAM_STATE_LOST, detail=detail, instance="")
    for state in (pb.PIPELINE_STATE_ATTACHED, pb.PIPELINE_STATE_DETACHED, pb.PIPELINE_STATE_AWAY):
        listed = found(status(streams=[lost], pipelines=[pipeline(state=state, away_ms=1)]))
        assert {part: problem.kind for part, problem in listed.items()} == {
            "stream orders/0": Kind.POSITION_LOST,
            "pipeline totals": Kind.POSITION_LOST,
        }
        assert listed["pipeline totals"].cause == detail


def test_a_stream_that_no_query_reads() -> None:
    parked = stream(state=pb.STREAM_STATE_PARKED, readers=0)
    assert kinds(status(streams=[parked], pipelines=[])) == {"stream orders/0": (Kind.NOT_READ, "")}
    assert kinds(status(streams=[parked], pipelines=[pipeline(state=pb.PIPELINE_STATE_AWAY, away_ms=1)])) == {
        "pipeline totals": (Kind.PIPELINE_AWAY, ""),
        "stream orders/0": (Kind.PIPELINE_AWAY, "pipeline totals"),
    }
    assert "pipeline totals reads it" in found(status(streams=[parked]))["stream orders/0"].cause


# Sinks


def test_a_sink_without_a_connector_stops_the_queries_that_write_to_it() -> None:
    listed = found(status(sinks=[sink(instances=[], absent_ms=3_000)], sink_sessions=[]))
    assert {part: (problem.root, problem.age_ms) for part, problem in listed.items()} == {
        "sink out": ("", 3_000),
        "pipeline totals": ("sink out", 3_000),
    }
    assert found(status(sinks=[sink(instances=[], writers=[])], sink_sessions=[])) == {}
    assert kinds(status(sinks=[sink(instances=[], writers=[], pending_transactions=1)], sink_sessions=[])) == {
        "sink out": (Kind.SINK_AWAY, "")
    }


def test_an_instance_that_has_left_with_transactions() -> None:
    assert "instance other has left" in found(status(sinks=[sink(away=["other"])]))["sink out"].cause


def test_what_the_connector_of_a_sink_reports_is_the_cause_of_its_queries() -> None:
    listed = found(status(sink_sessions=[sink_session(reported=reported(WAITING, "no space left"))]))
    assert {part: problem.root for part, problem in listed.items()} == {
        "connector writer of sink out": "",
        "sink out": "connector writer of sink out",
        "pipeline totals": "connector writer of sink out",
    }
    assert {problem.cause for problem in listed.values()} == {"no space left"}


def test_a_sink_that_fails_is_the_cause_of_its_queries() -> None:
    listed = found(status(sinks=[sink(failure="instance writer: disk full", failure_age_ms=9)]))
    assert kinds(status(sinks=[sink(failure="instance writer: disk full")]))["pipeline totals"] == (Kind.SINK_FAILS, "sink out")
    assert listed["pipeline totals"].cause == "instance writer: disk full"


def test_a_sink_that_does_not_answer_is_the_cause_of_its_queries() -> None:
    waits = "instance writer has not voted for batch 7 of pipeline totals"
    assert found(status(sinks=[sink(outstanding=waits, outstanding_ms=SLOW_AFTER_MS - 1)])) == {}
    slow = status(sinks=[sink(outstanding=waits, outstanding_ms=SLOW_AFTER_MS)])
    assert kinds(slow) == {"sink out": (Kind.SINK_SLOW, ""), "pipeline totals": (Kind.SINK_SLOW, "sink out")}
    assert found(slow)["pipeline totals"].cause == waits


def test_what_a_connector_reports_comes_before_its_slow_answers() -> None:
    slow = sink(outstanding="instance writer has not voted", outstanding_ms=SLOW_AFTER_MS)
    listed = found(status(sinks=[slow], sink_sessions=[sink_session(reported=reported(WAITING, "no space left"))]))
    assert {problem.cause for problem in listed.values()} == {"no space left"}


def test_the_last_error_of_a_connector_that_has_left_is_why() -> None:
    away = stream(state=pb.STREAM_STATE_DETACHED, instance="", last_error="the password is wrong")
    assert found(status(streams=[away], sessions=[]))["connector shop"].cause == "its session has ended: the password is wrong"
    gone = sink(instances=[], last_error="the password is wrong")
    assert "ended with: the password is wrong" in found(status(sinks=[gone], sink_sessions=[]))["pipeline totals"].cause


def test_a_sink_that_has_lost_what_it_voted_for() -> None:
    lost = [pb.LostVote(instance="writer", transaction=Transaction(pipeline="totals", batch=7))]
    listed = found(status(sinks=[sink(writers=[], lost=lost)], sink_sessions=[sink_session(age_ms=4_000)]))
    assert listed["pipeline totals"].root == "sink out"
    assert listed["sink out"].age_ms == 4_000
    assert "batch 7 of pipeline totals" in listed["sink out"].cause


# Pipelines


def test_a_pipeline_whose_lease_has_ended() -> None:
    listed = found(status(pipelines=[pipeline(state=pb.PIPELINE_STATE_AWAY, away_ms=2_000, idle_ms=62_000)]))
    assert listed["pipeline totals"].cause == "its lease has ended: it no longer calls"
    assert listed["pipeline totals"].age_ms == 2_000


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        (pb.PIPELINE_STATE_DETACHED, Kind.PIPELINE_DETACHED),
        (pb.PIPELINE_STATE_AWAITED, Kind.PIPELINE_AWAITED),
    ],
)
def test_a_pipeline_that_is_not_there_is_a_problem_while_a_source_waits_for_it(state: Any, kind: Kind) -> None:
    held = status(streams=[stream(holders=[holder(state)])], pipelines=[pipeline(state=state)])
    assert kinds(held) == {"pipeline totals": (kind, "")}
    assert found(status(pipelines=[pipeline(state=state)])) == {}


@pytest.mark.parametrize("state", [pb.PIPELINE_STATE_ATTACHED, pb.PIPELINE_STATE_DETACHED, pb.PIPELINE_STATE_AWAY])
def test_a_micro_batch_that_fails_is_named_with_its_error(state: Any) -> None:
    fault = RunFault(kind=RUN_FAULT_KIND_BATCH_FAILED, batch=7, message="step sum: ValueError: no price", age_ms=9)
    failing = pipeline(state=state, fault=fault)
    listed = found(status(pipelines=[failing], streams=[stream(holders=[holder(state)])]))
    assert kinds(status(pipelines=[failing])) == {"pipeline totals": (Kind.PIPELINE_FAILS, "")}
    assert listed["pipeline totals"].cause == "batch 7: step sum: ValueError: no price"
    away = status(pipelines=[failing], sinks=[sink(instances=[])], sink_sessions=[])
    assert kinds(away)["pipeline totals"] == (Kind.SINK_AWAY, "sink out")


def test_lost_executors_are_named() -> None:
    fault = RunFault(kind=RUN_FAULT_KIND_EXECUTORS_LOST, message="executor 1 was lost", age_ms=9)
    assert kinds(status(pipelines=[pipeline(fault=fault)])) == {"pipeline totals": (Kind.EXECUTOR_LOST, "")}


def test_a_function_that_does_not_return_is_named() -> None:
    fault = RunFault(kind=RUN_FAULT_KIND_FUNCTION_RUNS, message="a function has been running for 10 s: step sum", age_ms=10_000)
    stuck = status(pipelines=[pipeline(fault=fault)])
    assert kinds(stuck) == {"pipeline totals": (Kind.BATCH_STUCK, "")}
    assert found(stuck)["pipeline totals"].cause == "a function has been running for 10 s: step sum"


def test_a_slow_commit_log_is_why_a_batch_that_is_voted_for_is_not_committed() -> None:
    assert found(status(pipelines=[pipeline(voted_ms=SLOW_AFTER_MS - 1)])) == {}
    slow = pipeline(voted_ms=SLOW_AFTER_MS)
    assert kinds(status(pipelines=[slow])) == {"pipeline totals": (Kind.COMMIT_SLOW, "")}


def test_a_micro_batch_is_stuck_after_a_time_and_a_sink_or_stream_may_be_why() -> None:
    stuck = [pipeline(batch_ms=STUCK_AFTER_MS)]
    assert found(status(pipelines=[pipeline(batch_ms=STUCK_AFTER_MS - 1)])) == {}
    assert kinds(status(pipelines=stuck)) == {"pipeline totals": (Kind.BATCH_STUCK, "")}
    assert "its micro-batch is planned" in found(status(pipelines=stuck))["pipeline totals"].cause
    away = stream(state=pb.STREAM_STATE_DETACHED, instance="")
    assert kinds(status(pipelines=stuck, streams=[away], sessions=[]))["pipeline totals"] == (
        Kind.CONNECTOR_AWAY,
        "connector shop",
    )
    held = status(streams=[stream(holders=[holder(held_ms=STUCK_AFTER_MS)])])
    assert "it plans no micro-batch" in found(held)["pipeline totals"].cause
