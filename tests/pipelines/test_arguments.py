"""Every parameter of every public method of a pipeline is tried with values that it cannot have.

The methods are found, not listed: a new parameter fails these tests until it refuses what no parameter can have, and says which
odd values it can.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from functools import wraps
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace.pipelines
from headrace.contract.names import is_name, is_stream_pattern
from headrace.pipelines import (
    Broadcast,
    Context,
    Flow,
    GraphError,
    Headers,
    KeyedFlow,
    Late,
    Message,
    OnError,
    Pipeline,
    PipelineError,
    StepError,
    Table,
    Trial,
    Windowed,
    count,
    count_window,
    session,
    sliding,
    tumbling,
)
from headrace.pipelines.formats import json


class Another(Enum):
    FAIL = "fail"


async def is_async(*arguments: object) -> object:
    return arguments


async def is_async_and_yields(*arguments: object) -> Any:
    yield arguments


def yields(*arguments: object) -> Iterator[object]:
    yield arguments


class YieldsWhenCalled:
    def __call__(self, *arguments: object) -> Iterator[object]:
        yield arguments


def takes_nothing() -> list[object]:
    return []


def takes_five(a: object, b: object, c: object, d: object, e: object) -> object:
    return a


class CannotBeShown:
    def __repr__(self) -> str:
        raise RuntimeError


ODD: Mapping[str, Any] = {
    "None": None,
    "True": True,
    "0": 0,
    "-1": -1,
    "60": 60,
    "2.5": 2.5,
    "nan": float("nan"),
    "infinity": float("inf"),
    "more than the protocol carries": 10**18,
    "less than nothing": -(10**30),
    "a number beyond floats": 10**400,
    "a number that Python does not write": 10**5_000,
    "text": "fail",
    "no text": "",
    "two lines": "a\nb",
    "spaces around": " a ",
    "a surrogate": "\ud800",
    "long text": "x" * 256,
    "bytes": b"bytes",
    "an empty list": [],
    "a list": [count, None],
    "an empty dict": {},
    "an object": CannotBeShown(),
    "another enum": Another.FAIL,
    "no time": timedelta(0),
    "time that runs backwards": timedelta(seconds=-1),
    "more than event time": timedelta.max,
    "text beyond event time": "1000000000 days",
    "a list of nan": [float("nan")],
    "a list of huge numbers": [10**400, 10**5_000],
    "an async function": is_async,
    "an async generator": is_async_and_yields,
    "a generator": yields,
    "an object that yields when it is called": YieldsWhenCalled(),
    "a function without parameters": takes_nothing,
    "a function of five": takes_five,
    "a flow of another pipeline": Pipeline("other").source("s/*"),
}
GENERATORS = {"a generator", "an object that yields when it is called"}
CAN_BE: Mapping[str, set[str]] = {
    "Pipeline.name": {"text"},
    "Pipeline.on_error": set(),
    "after": {"no time"},
    "as_of": {"True"},
    "bootstrap": {"True"},
    "concurrency": {"60"},
    "retries": {"0", "60"},
    "map_async.function": {"an async function"},
    "map_async.setup": {"None", "an async function", "a function without parameters"},
    "teardown": {"None"},
    "cache_by": {"None"},
    "cache_size": {"60"},
    "approximate": {"True"},
    "by": {"None"},
    "n": {"60"},
    "quantile.at": {"0"},
    "before": {"no time"},
    "broadcast.decode": set(),
    "broadcast.event_time": {"None"},
    "broadcast.key": {"None"},
    "primary_key.key": {"None"},
    "primary_key.table": {"text"},
    "count_window.values": {"60"},
    "delay": {"None", "no time"},
    "files": {"an empty list", "an empty dict"},
    "flat_map.function": GENERATORS,
    "headers": {"True"},
    "initial": {"None", "a function without parameters"},
    "lake.options": {"None", "an empty dict"},
    "lake.partition_by": {"an empty list"},
    "lake.path": {"text", "spaces around", "long text", "text beyond event time"},
    "lake.table": {"None"},
    "table.decode": set(),
    "table.event_time": {"None"},
    "table.key": {"None"},
    "map_columns.headers": {"True"},
    "max_ahead": {"None", "no time"},
    "name": {"None", "text", "text beyond event time"},
    "retention": {"no time"},
    "set_headers.function": GENERATORS,
    "sink.sink": {"text"},
    "stateful.state": {"a function without parameters"},
    "stateful_columns.state": {"a function without parameters"},
    "stateful_flat.function": GENERATORS,
    "stateful_flat.on_timer": {"None", *GENERATORS},
    "stateful_flat.state": {"a function without parameters"},
    "key_by.function": {"None"},
    "counter.amount": {"None"},
    **{f"{method}.values": {"an empty list", "an empty dict"} for method in ("counter", "histogram")},
    **{optional: {"None"} for optional in ("aggregation", "combine", "decode", "encode", "id", "on_timer", "output", "update")},
    **{
        optional: {"None"}
        for optional in (
            "clock_every",
            "emit_every",
            "idle_after",
            "idle_flush",
            "await_time",
            "clock_ttl",
            "on_error",
            "ttl",
            "unit",
        )
    },
    "await_streams": {"None", "60"},
    "max_keys": {"None", "60"},
    "max_rows": {"60"},
    "map_with.retention": {"None", "no time"},
    "dead_letters": {"None", "text"},
    "of": {"None"},
    "contract": {"None"},
    "where": {"None"},
}
"""The odd values that a parameter can have, by its name, or by the method and its name."""

PLACE = "pipeline odd"


@dataclass
class Class:
    number: int


NEWEST: list[Pipeline] = []
"""The pipeline that was made last."""


def pipeline() -> Pipeline:
    NEWEST[:] = [Pipeline("odd")]
    return NEWEST[0]


def flow() -> Flow[Any]:
    return pipeline().source("s/*", name="before")


def keyed() -> KeyedFlow[Any]:
    return flow().key_by(name="by-key")


def windowed() -> Windowed[Any, Any]:
    return keyed().window(tumbling("1 hour"))


def keeps(value: Any, state: list[Any], context: Any) -> Any:
    return value


@dataclass(frozen=True)
class InPipeline:
    """An argument that must be of the pipeline of the method."""

    make: Callable[[Pipeline], Any]


def made(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for a method of the newest pipeline."""
    return {name: value.make(NEWEST[0]) if isinstance(value, InPipeline) else value for name, value in arguments.items()}


TABLE = InPipeline(lambda app: app.table("t/*", decode=repr))
ROWS = InPipeline(lambda app: app.broadcast("b/*", decode=repr))
RIGHT = InPipeline(lambda app: app.source("r/*").key_by())
SOUND: Mapping[str, Mapping[str, Any]] = {
    "Pipeline": {"name": "odd"},
    "source": {"streams": "s/*"},
    "map": {"function": repr},
    "map_async": {"function": is_async},
    "flat_map": {"function": repr},
    "filter": {"function": bool},
    "map_with_headers": {"function": lambda value, headers: value},
    "set_headers": {"function": lambda value, headers: headers},
    "event_time": {"function": int},
    "merge": {},
    "key_by": {"function": repr},
    "join": {"table": TABLE, "on": repr, "retention": "1 hour"},
    "window join": {"right": RIGHT},
    "join_within": {"right": RIGHT, "before": "1 hour", "after": "1 hour"},
    "table": {"streams": "t/*", "decode": repr},
    "broadcast": {"streams": "t/*", "decode": repr},
    "map_with": {"rows": ROWS, "function": lambda value, rows: value},
    "deduplicate": {"within": "1 hour", "id": repr},
    "map_columns": {"function": lambda batch: batch},
    "to_columns": {"kind": Class},
    "decode_columns": {"format": json(Class)},
    "sink": {"sink": "out"},
    "sink_by": {"function": repr, "sinks": ["out"]},
    "split": {"function": repr, "into": ["one", "other"]},
    "counter": {"name": "the-step"},
    "histogram": {"name": "the-step", "of": len, "bounds": [1, 2]},
    "lake": {"path": "tables/out", "schema": Class},
    "stateful": {"function": keeps, "state": list},
    "stateful_flat": {"function": keeps, "state": list},
    "stateful_columns": {"function": lambda batch, states: batch, "state": list},
    "stateful_program": {"command": ["sh"], "state": ["count"]},
    "window": {"windows": tumbling("1 hour")},
    "collect": {"function": lambda key, values, window: key},
    "late_values": {},
    "aggregate": {"initial": int, "update": lambda accumulator, value: accumulator},
    "tumbling": {"size": "1 hour"},
    "sliding": {"size": "1 hour", "every": "5 minutes"},
    "session": {"gap": "1 hour"},
    "count_window": {"values": 1},
    "primary_key": {"table": "public.customers"},
    **{aggregation: {} for aggregation in ("count", "total", "mean", "minimum", "maximum", "collect()", "distinct")},
    "top_n": {"n": 3},
    "quantile": {"at": 0.5},
}
"""Arguments of a valid call of each method."""

ALIKE = {("function", "collect"): "collect()", ("Windowed", "join"): "window join"}
"""Methods whose names others have, too, by owner and name."""

ALONE: Mapping[str, Mapping[str, Any]] = {"aggregation": {"initial": None, "update": None}}
"""The arguments beside a parameter that excludes others."""


@dataclass(frozen=True)
class Case:
    """A parameter of a method."""

    owner: str
    method: str
    parameter: inspect.Parameter
    bind: Callable[[], Callable[..., Any]] = field(compare=False)

    @property
    def sound(self) -> dict[str, Any]:
        """The arguments of a valid call, with a name if the method has one."""
        named = {"name": "the-step"} if "name" in inspect.signature(self.bind()).parameters and self.owner != "Pipeline" else {}
        plain = ALIKE.get((self.owner, self.method), self.method)
        return {**named, **SOUND[plain], **ALONE.get(self.parameter.name, {})}

    @property
    def can_be(self) -> set[str]:
        """The odd values that the parameter can have."""
        exact = CAN_BE.get(f"{self.method}.{self.parameter.name}")
        return CAN_BE.get(self.parameter.name, set()) if exact is None else exact

    @property
    def place(self) -> str:
        """The beginning of an error."""
        if self.owner == "function" or self.owner == "Pipeline":
            return f"{self.method}(...)" if self.owner == "function" else "pipeline"
        if "name" in self.sound and self.parameter.name != "name":
            return f"{PLACE}, {'source' if self.method == 'source' else 'step'} the-step"
        return f"{PLACE}, {self.method}(...)"

    def call(self, odd: Any) -> Any:
        """Calls the method with an odd value of the parameter, and returns what it returns."""
        sound, method = self.sound, self.bind()
        if self.parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            return method(odd, **made(sound))
        return method(**made({**sound, self.parameter.name: odd}))


def methods() -> Iterator[tuple[str, str, Callable[[], Callable[..., Any]]]]:
    """The public methods and functions that build a pipeline: owner, name, and what returns it for a new pipeline."""
    makers: Mapping[type, Callable[[], Any]] = {Pipeline: pipeline, Flow: flow, KeyedFlow: keyed, Windowed: windowed}
    for name in headrace.pipelines.__all__:
        found = getattr(headrace.pipelines, name)
        if found in makers:
            for method, _ in inspect.getmembers(found, inspect.isfunction):
                if not method.startswith("_"):
                    yield name, method, lambda method=method, make=makers[found]: getattr(make(), method)  # type: ignore[misc]
        elif inspect.isfunction(found):
            yield "function", name, lambda found=found: found  # type: ignore[misc]
    yield "Pipeline", "Pipeline", lambda: Pipeline


ELSEWHERE: Mapping[str, str] = {
    "Aggregation": "its methods are called by steps, which check what they return: test_returned",
    "Broadcast": "what `broadcast` returns, and `map_with` checks",
    "Call": "what the function of map_async receives: test_map_async",
    "Context": "below",
    "Headers": "below",
    "KeyStates": "test_returned",
    "Message": "the values of a stream; the ones that a trial sends are checked: test_trial",
    "PerProcess": "test_per_process",
    "Table": "what `table` returns, and `join` checks",
    "Trial": "test_trial",
    "Window": "what functions receive",
    "Written": "what a trial returns",
}
"""The public classes whose methods do not build a pipeline, and what tries them."""


def test_nothing_public_is_left_out() -> None:
    tried = {owner for owner, _, _ in methods() if owner != "function"} | {
        method for owner, method, _ in methods() if owner == "function"
    }
    types = {
        name
        for name in headrace.pipelines.__all__
        if isinstance(found := getattr(headrace.pipelines, name), type) and issubclass(found, (Enum, Exception))
    }
    assert {*headrace.pipelines.__all__} - {"Header"} == tried | types | ELSEWHERE.keys()


CASES = [
    Case(owner, method, parameter, bind)
    for owner, method, bind in methods()
    for parameter in inspect.signature(bind()).parameters.values()
]


def test_every_method_is_known_with_a_valid_call() -> None:
    found = list(methods())
    assert len(found) > 40
    for owner, method, bind in found:
        case = Case(owner, method, inspect.Parameter("no_parameter", inspect.Parameter.KEYWORD_ONLY), bind)
        sound, method_of_new = case.sound, bind()
        method_of_new(**made(sound))


def raised(call: Callable[[], object], *errors: type[Exception]) -> str | None:
    """The error of a call; None if there is none."""
    try:
        call()
    except errors as error:
        return str(error)
    return None


def refusal(case: Case, odd: str) -> str | None:
    """The error for an odd value; None if there is none."""
    return raised(lambda: case.call(ODD[odd]), GraphError)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.owner}.{case.method}-{case.parameter.name}")
def test_a_parameter_refuses_what_it_cannot_have_and_names_the_step(case: Case) -> None:
    tried = [odd for odd in ODD if odd not in case.can_be]
    assert len(tried) > 20
    for odd in tried:
        said = refusal(case, odd)
        assert said is not None, f"{case.owner}.{case.method} accepts {odd} as {case.parameter.name}"
        assert re.fullmatch(rf"(a )?{re.escape(case.place)}.*:? {case.parameter.name}\b.{{,600}}", said), said


CANNOT_BE_SHOWN = {"an object", "a number that Python does not write", "a list of huge numbers"}
"""Values whose repr raises, also where Hypothesis calls it."""
PARTS = st.one_of(
    st.sampled_from([value for name, value in ODD.items() if name not in CANNOT_BE_SHOWN]),
    st.integers() | st.floats() | st.decimals() | st.fractions() | st.text(max_size=4) | st.binary(max_size=4),
    st.timedeltas() | st.datetimes() | st.sampled_from(["1 hour", "5 ms", "a", "b", "delta", "inner", Late.FIRE, OnError.SKIP]),
    st.sampled_from([int, str, list, dict, len, print, Class, count(), tumbling("1 s"), json(Class), re.compile("a")]),
)
ANYTHING = st.recursive(
    PARTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
        | st.dictionaries(st.integers(), inner, max_size=2) | st.frozensets(st.text(max_size=2), max_size=3)
    ),
    max_leaves=4,
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.owner}.{case.method}-{case.parameter.name}")
@settings(max_examples=25, derandomize=True, database=None, deadline=None)
@given(odd=ANYTHING)
def test_whatever_is_passed_is_refused_with_the_name_of_the_step_or_fits_and_nothing_inside_fails_later(
    case: Case, odd: Any
) -> None:
    found = list[Any]()
    said = raised(lambda: found.append(case.call(odd)), GraphError)
    if said is not None:
        place = re.escape(case.place).replace(",", "[,:]")
        assert re.match(rf"(a )?{place}.*\b{case.parameter.name}\b", said, re.DOTALL | re.IGNORECASE), said
        assert len(said) < 1_000, "an error is not longer than what is wrong"
        return
    app = finished(case, found[0])
    said = raised(lambda: try_out(app, starts=case.method != "stateful_program"), PipelineError)
    assert said is None or re.match(rf"pipeline {app.name}\b", said), said


def try_out(app: Pipeline, *, starts: bool) -> None:
    """Has a pipeline process a message, unless that would start a program."""
    graph = app.graph
    if starts:
        trial = Trial(app)
        trial.send(Message(b'{"number": 1}', b"k", 5, graph.streams[0].replace("*", "0")))
        trial.finish()


def finished(case: Case, found: Any) -> Pipeline:
    """The pipeline to which a call belongs, with what it lacks: a step that uses the result of the call, and a sink."""
    if isinstance(found, Pipeline):
        found.source("s/*", name="before").sink("end", encode=repr_of)
        return found
    if case.method == "primary_key":
        found = pipeline().table("t/*", decode=repr, key=found, name="rows")
    elif case.owner == "function":
        found = keyed().window(found) if case.method in SPANS else keyed().aggregate(found, name="made")
    app = NEWEST[0]
    if isinstance(found, Windowed):
        found = found.aggregate(count(), name="made")
    if isinstance(found, Table):
        found = app.source("o/*").join(found, on=repr, retention="1 s", name="made")
    if isinstance(found, Broadcast):
        found = app.source("o/*").key_by(name="o-key").map_with(found, lambda value, rows: value, name="made")
    for number, flow in enumerate(found.values() if isinstance(found, Mapping) else [] if found is None else [found]):
        flow.sink(f"end{number}", encode=repr_of, name=f"end{number}")
    return app


def repr_of(value: Any) -> bytes:
    return repr(value).encode()


SPANS = {"tumbling", "sliding", "session", "count_window"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.owner}.{case.method}-{case.parameter.name}")
def test_what_is_refused_changes_nothing(case: Case) -> None:
    sound, method = case.sound, case.bind()
    if case.parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        with pytest.raises(GraphError):
            method(CannotBeShown(), **made(sound))
    else:
        with pytest.raises(GraphError):
            method(**made({**sound, case.parameter.name: CannotBeShown()}))
    method(**made({**sound, **({} if case.parameter.name != "aggregation" else {"aggregation": count()})}))


@given(st.text(max_size=8) | st.text("ab.-*/", max_size=300))
def test_names_and_patterns_are_those_of_the_protocol(text: str) -> None:
    def accepted(build: Callable[[], object]) -> bool:
        try:
            build()
        except GraphError:
            return False
        return True

    assert accepted(lambda: Pipeline(text)) == is_name(text)
    assert accepted(lambda: flow().sink(text)) == is_name(text)
    assert accepted(lambda: Pipeline("p", dead_letters=text)) == is_name(text)
    patterns = [pattern.strip() for pattern in text.split(",") if pattern.strip()]
    assert accepted(lambda: pipeline().source(text)) == (bool(patterns) and all(map(is_stream_pattern, patterns)))


@pytest.mark.parametrize("policy", [*OnError, None])
def test_a_policy_is_a_member_of_its_enum(policy: OnError | None) -> None:
    flow().map(repr, on_error=policy)
    with pytest.raises(
        GraphError, match=r"step repr: on_error must be OnError.FAIL, OnError.SKIP or OnError.DEAD_LETTER, not 'fail'"
    ):
        flow().map(repr, on_error="fail")  # type: ignore[arg-type]
    with pytest.raises(GraphError, match=r"late must be Late.DROP, Late.FIRE or Late.PLACE_IN_OLDEST, not 'fire'"):
        keyed().window(tumbling("1s"), late="fire")  # type: ignore[call-overload]
    for late in Late:
        keyed().window(tumbling("1s"), late=late)


def test_windows_say_what_a_duration_is() -> None:
    with pytest.raises(
        GraphError, match=r"tumbling\(...\): size: a duration is a timedelta, or text such as '5 minutes', not 60"
    ):
        tumbling(60)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match=r"contain each value 31,536,000,000,000 times"):
        sliding("365 days", every="1us")
    with pytest.raises(GraphError, match="longer than event time"):
        session(timedelta.max)
    with pytest.raises(GraphError, match=r"values must be a whole number, not 2\.5"):
        count_window(2.5)  # type: ignore[arg-type]


def test_a_function_that_a_decorator_wraps_is_judged_by_the_wrapper() -> None:
    def with_connection(function: Callable[[Any, str], Any]) -> Callable[[Any], Any]:
        @wraps(function)
        def connected(value: Any) -> Any:
            return function(value, "connection")

        return connected

    @with_connection
    def looked_up(value: Any, connection: str) -> Any:
        return value, connection

    flow().map(looked_up)


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    assert count_window(np.int64(3)) == count_window(3)  # type: ignore[arg-type]
    assert type(count_window(np.int64(3)).values) is int  # type: ignore[arg-type]


def test_a_state_is_made_by_a_class_or_a_function() -> None:
    with pytest.raises(GraphError, match=r"step keeps: state must be a class or a function that makes a new object, not \[\]"):
        keyed().stateful(keeps, [])  # type: ignore[arg-type]


def test_what_makes_states_may_not_raise() -> None:
    def broken() -> list[int]:
        raise OSError("no such file")

    with pytest.raises(GraphError, match="step keeps: state raised OSError: no such file"):
        keyed().stateful(keeps, broken)
    with pytest.raises(GraphError, match="step sums: initial raised OSError: no such file"):
        keyed().aggregate(initial=broken, update=lambda a, b: a, name="sums")


@pytest.mark.parametrize("parameter", ["at", "after"])
@pytest.mark.parametrize("method", ["set_timer", "cancel_timer"])
def test_a_context_refuses_what_is_no_time(method: str, parameter: str) -> None:
    can_be = {"after": {"no time"}, "at": {"True", "0", "-1", "60"}}[parameter]
    for odd in ODD.keys() - can_be - {"None"}:

        def times(value: Any, state: list[Any], context: Context, odd: Any = ODD[odd]) -> None:
            getattr(context, method)(**{parameter: odd})

        app = Pipeline("odd")
        flow: KeyedFlow[Any] = app.source("s/*").key_by(name="by-key")
        flow.stateful(times, list, on_timer=lambda state, context: None, name="step").sink("out")
        message = Message(b"", b"k", 5, "s/0")
        assert raised(lambda app=app, message=message: Trial(app).send(message), StepError), f"{method} accepts {odd}"  # type: ignore[misc]


@pytest.mark.parametrize("odd", [odd for odd, value in ODD.items() if not isinstance(value, str) or odd == "a surrogate"])
def test_headers_refuse_what_is_no_name_and_no_value(odd: str) -> None:
    headers, error = Headers([("tenant", b"a")]), (TypeError, UnicodeEncodeError)
    with pytest.raises(error):
        headers.with_header(ODD[odd], b"")
    if odd not in {"None", "bytes"}:
        with pytest.raises(error):
            headers.with_header("tenant", ODD[odd])
    if odd != "a surrogate":
        with pytest.raises(error):
            headers.get(ODD[odd])
        with pytest.raises(error):
            headers.without("tenant", ODD[odd])


def test_what_makes_states_makes_a_new_one_each_time() -> None:
    class Votes:
        def __init__(self) -> None:
            self.count = 0

    for one in ([], {}, set(), bytearray(), Votes()):
        with pytest.raises(
            GraphError, match=rf"step keeps: state returns the same {type(one).__name__} each time, which all keys"
        ):
            keyed().stateful(keeps, lambda one=one: one)
        with pytest.raises(GraphError, match="step sums: initial returns the same"):
            keyed().aggregate(initial=lambda one=one: one, update=lambda a, b: a, name="sums")
    for same in (None, 0, (), "", frozenset(), Another.FAIL, timedelta(0)):
        keyed().aggregate(initial=lambda same=same: same, update=lambda a, b: a, name="sums")


def test_a_stateful_function_is_called_as_its_wrapper_says() -> None:
    def passes_on(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def wrapper(*arguments: Any) -> Any:
            return function(*arguments)

        return wrapper

    def adds(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def wrapper(value: Any, state: Any) -> Any:
            return function(value, state, "connection")

        return wrapper

    def shown(value: Any, state: list[Any], third: Any) -> str:
        return f"{third if isinstance(third, str) else third.key}"

    def only_by_name(value: Any, state: list[Any], *, third: Any) -> str:
        return ""

    for decorate, expected in ((passes_on, b"5"), (adds, b"connection")):
        app = pipeline()
        app.source("s/*", decode=int).key_by(int, name="by").stateful(decorate(shown), list, name="step").sink("out")
        trial = Trial(app)
        trial.send(Message(b"5", stream="s/0"))
        assert trial.values("out") == [expected]
    with pytest.raises(GraphError, match=r"step only_by_name: function is called with \(value, state\), which"):
        keyed().stateful(only_by_name, list)
