"""The interface for engines that run pipelines. Applications do not need it."""

from headrace.contract.names import covers as matches
from headrace.pipelines._errors import NotStored, no_step, text_of
from headrace.pipelines.elements._elements import Elements, Key, States
from headrace.pipelines.elements._headers import Headers, HeadersColumn
from headrace.pipelines.elements._origin import NO_TIME, Origin, Times
from headrace.pipelines.elements._rows import Column, Rows
from headrace.pipelines.execution._call_record import RECORD_BYTES, call_record
from headrace.pipelines.execution._kept_times import merged
from headrace.pipelines.execution._marks import EVERY_STREAM, Marks
from headrace.pipelines.execution._measures import StepMeasures, summed
from headrace.pipelines.execution._order import in_order
from headrace.pipelines.execution._pass import Failed, Pass
from headrace.pipelines.execution._watermarks import EventTime
from headrace.pipelines.graph._graph import Graph
from headrace.pipelines.states._state import StateClass
from headrace.pipelines.states._values import dumps_plain
from headrace.pipelines.steps._fingerprints import Fingerprint, check_fingerprints
from headrace.pipelines.steps._keys import in_order_of_keys, normal_key
from headrace.pipelines.steps._step import Counted, OnError
from headrace.pipelines.time._time import END, bounded, first_time, prefix_maxima

__all__ = [
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
    "Marks",
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
    "dumps_plain",
    "first_time",
    "in_order",
    "in_order_of_keys",
    "matches",
    "merged",
    "no_step",
    "normal_key",
    "prefix_maxima",
    "summed",
    "text_of",
]
