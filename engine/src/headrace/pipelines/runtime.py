"""What an engine needs that runs pipelines; applications need none of it."""

from headrace.pipelines._elements import Elements, Key, States
from headrace.pipelines._errors import no_step
from headrace.pipelines._fingerprints import Fingerprint, check_fingerprints
from headrace.pipelines._graph import Graph
from headrace.pipelines._keys import in_order_of_keys, normal_key, not_normal
from headrace.pipelines._order import in_order
from headrace.pipelines._origin import NO_TIME, Origin, Times
from headrace.pipelines._pass import Failed, Pass
from headrace.pipelines._patterns import matches
from headrace.pipelines._rows import Column, Rows
from headrace.pipelines._state import StateClass
from headrace.pipelines._step import Counted, OnError
from headrace.pipelines._time import END, bounded, prefix_maxima
from headrace.pipelines._values import dumps_plain
from headrace.pipelines._watermarks import EVERY_STREAM, EventTime, Watermarks, merged

__all__ = [
    "END",
    "EVERY_STREAM",
    "NO_TIME",
    "Column",
    "Counted",
    "Elements",
    "EventTime",
    "Failed",
    "Fingerprint",
    "Graph",
    "Key",
    "OnError",
    "Origin",
    "Pass",
    "Rows",
    "StateClass",
    "States",
    "Times",
    "Watermarks",
    "bounded",
    "check_fingerprints",
    "dumps_plain",
    "in_order",
    "in_order_of_keys",
    "matches",
    "merged",
    "no_step",
    "normal_key",
    "not_normal",
    "prefix_maxima",
]
