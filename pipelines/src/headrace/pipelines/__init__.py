"""Event-driven applications in Python: plain functions, with a state for each key, from sources to sinks.

This package does not need Spark. `headrace run` runs a pipeline on Spark, and `Trial` runs it on a list of messages.
"""

from headrace.pipelines._captured_tables import primary_key
from headrace.pipelines._errors import FormatError, GraphError, PipelineError, ProgramError, StateError, StepError, TrialError
from headrace.pipelines._flow import Flow, KeyedFlow
from headrace.pipelines._harness import Trial, Written
from headrace.pipelines._pipeline import Pipeline
from headrace.pipelines._table import Broadcast, Table
from headrace.pipelines._windowed import Windowed
from headrace.pipelines.elements.headers import Header, Headers
from headrace.pipelines.elements.message import Message
from headrace.pipelines.steps.aggregation import Aggregation, Window, collect, count, maximum, mean, minimum, total
from headrace.pipelines.steps.async_map import Call
from headrace.pipelines.steps.context import Context
from headrace.pipelines.steps.key_states import KeyStates
from headrace.pipelines.steps.per_process import PerProcess
from headrace.pipelines.steps.step import OnError
from headrace.pipelines.steps.summaries import distinct, quantile, top_n
from headrace.pipelines.time.time import TimeUnit
from headrace.pipelines.windows.late import Late
from headrace.pipelines.windows.windows import count_window, session, sliding, tumbling

__all__ = [
    "Aggregation",
    "Broadcast",
    "Call",
    "Context",
    "Flow",
    "FormatError",
    "GraphError",
    "Header",
    "Headers",
    "KeyStates",
    "KeyedFlow",
    "Late",
    "Message",
    "OnError",
    "PerProcess",
    "Pipeline",
    "PipelineError",
    "ProgramError",
    "StateError",
    "StepError",
    "Table",
    "TimeUnit",
    "Trial",
    "TrialError",
    "Window",
    "Windowed",
    "Written",
    "collect",
    "count",
    "count_window",
    "distinct",
    "maximum",
    "mean",
    "minimum",
    "primary_key",
    "quantile",
    "session",
    "sliding",
    "top_n",
    "total",
    "tumbling",
]
