"""Deployments: a gateway, connectors, applications and Spark programs on one machine, started together and kept running."""

from headrace.deploy.aside import Aside
from headrace.deploy.configuration import Deployment, gateway_config, load_deployment
from headrace.deploy.environment import may_read_status, may_supervise
from headrace.deploy.errors import (
    AlreadyRuns,
    CannotAsk,
    CannotChange,
    CannotRestart,
    CannotRun,
    CannotStart,
    DeploymentError,
    NotRunning,
    Stopped,
)
from headrace.deploy.gateway import Flow, GatewayProbe, Known, NoProbe, StatusProbe
from headrace.deploy.graph import ApplicationGraph, missing, read_graphs
from headrace.deploy.link_call import Reached
from headrace.deploy.logs import last_lines
from headrace.deploy.patient_disk import LastKnown, PatientDisk
from headrace.deploy.plan import Plan, Role, plan
from headrace.deploy.signals import IsStopped, Signals
from headrace.deploy.status import Condition, Kind, ProcessStatus, State, Status
from headrace.deploy.supervisor import Ending, Supervisor
from headrace.deploy.supervisor_calls import ask_deployment, ask_processes, ask_restart, folder_of
from headrace.deploy.tables import GatewayOptions, PipelineOptions, QueryOptions
from headrace.deploy.unit import Unit, UnitError, written_by
from headrace.deploy.view import JsonView, LinesView, LiveView

__all__ = [
    "AlreadyRuns",
    "ApplicationGraph",
    "Aside",
    "CannotAsk",
    "CannotChange",
    "CannotRestart",
    "CannotRun",
    "CannotStart",
    "Condition",
    "Deployment",
    "DeploymentError",
    "Ending",
    "Flow",
    "GatewayOptions",
    "GatewayProbe",
    "IsStopped",
    "JsonView",
    "Kind",
    "Known",
    "LastKnown",
    "LinesView",
    "LiveView",
    "NoProbe",
    "NotRunning",
    "PatientDisk",
    "PipelineOptions",
    "Plan",
    "ProcessStatus",
    "QueryOptions",
    "Reached",
    "Role",
    "Signals",
    "State",
    "Status",
    "StatusProbe",
    "Stopped",
    "Supervisor",
    "Unit",
    "UnitError",
    "ask_deployment",
    "ask_processes",
    "ask_restart",
    "folder_of",
    "gateway_config",
    "last_lines",
    "load_deployment",
    "may_read_status",
    "may_supervise",
    "missing",
    "plan",
    "read_graphs",
    "written_by",
]
