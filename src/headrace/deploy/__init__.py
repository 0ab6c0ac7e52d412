"""Deployments: a gateway, connectors and an application on one machine, started together and kept running."""

from headrace.deploy.configuration import Deployment, GatewayOptions, PipelineOptions, load_deployment
from headrace.deploy.errors import AlreadyRuns, CannotChange, CannotRun, DeploymentError
from headrace.deploy.gateway import Flow, GatewayProbe, Known, NoProbe, StatusProbe
from headrace.deploy.graph import ApplicationGraph, missing, read_graph
from headrace.deploy.plan import Plan, Role, plan
from headrace.deploy.status import Condition, Kind, ProcessStatus, State, Status
from headrace.deploy.supervisor import Ending, Supervisor
from headrace.deploy.view import JsonView, LinesView, LiveView

__all__ = [
    "AlreadyRuns",
    "ApplicationGraph",
    "CannotChange",
    "CannotRun",
    "Condition",
    "Deployment",
    "DeploymentError",
    "Ending",
    "Flow",
    "GatewayOptions",
    "GatewayProbe",
    "JsonView",
    "Kind",
    "Known",
    "LinesView",
    "LiveView",
    "NoProbe",
    "PipelineOptions",
    "Plan",
    "ProcessStatus",
    "Role",
    "State",
    "Status",
    "StatusProbe",
    "Supervisor",
    "load_deployment",
    "missing",
    "plan",
    "read_graph",
]
