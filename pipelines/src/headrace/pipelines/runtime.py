"""The interface for engines that run pipelines. Applications do not need it."""

from headrace.contract.names import covers as matches
from headrace.pipelines._errors import NotStored, no_step, text_of
from headrace.pipelines.elements.elements import Elements, Key, Lineage, States
from headrace.pipelines.elements.headers import Headers, HeadersColumn
from headrace.pipelines.elements.message import NO_TIME, Origin, Times
from headrace.pipelines.elements.rows import Column, Rows
from headrace.pipelines.execution.call_record import RECORD_BYTES, call_record
from headrace.pipelines.execution.kept_times import merged
from headrace.pipelines.execution.marks import EVERY_STREAM, Marks
from headrace.pipelines.execution.measures import StepMeasures, summed
from headrace.pipelines.execution.order import in_order
from headrace.pipelines.execution.passes import Failed, Pass
from headrace.pipelines.execution.watermarks import EventTime
from headrace.pipelines.graph.graph import Graph
from headrace.pipelines.states.state import StateClass
from headrace.pipelines.states.values import dumps_plain
from headrace.pipelines.steps.fingerprints import Fingerprint, check_fingerprints
from headrace.pipelines.steps.keys import in_order_of_keys, normal_key
from headrace.pipelines.steps.lake import Lake
from headrace.pipelines.steps.lake_partitions import divided, values_of
from headrace.pipelines.steps.lake_places import is_in_store
from headrace.pipelines.steps.meters import BILLION, Meter, Metered, metered
from headrace.pipelines.steps.step import Counted, OnError
from headrace.pipelines.time.time import END, bounded, first_time, prefix_maxima

__all__ = [
    "BILLION",
    "END",
    "EVERY_STREAM",
    "NO_TIME",
    "RECORD_BYTES",
    "Column",
    "Counted",
    "Elements",
    "EventTime",
    "Failed",
    "Fingerprint",
    "Graph",
    "Headers",
    "HeadersColumn",
    "Key",
    "Lake",
    "Lineage",
    "Marks",
    "Meter",
    "Metered",
    "NotStored",
    "OnError",
    "Origin",
    "Pass",
    "Rows",
    "StateClass",
    "States",
    "StepMeasures",
    "Times",
    "bounded",
    "call_record",
    "check_fingerprints",
    "divided",
    "dumps_plain",
    "first_time",
    "in_order",
    "in_order_of_keys",
    "is_in_store",
    "matches",
    "merged",
    "metered",
    "no_step",
    "normal_key",
    "prefix_maxima",
    "summed",
    "text_of",
    "values_of",
]
