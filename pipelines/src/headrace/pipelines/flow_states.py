"""Steps with a state for each key: functions, programs, windows and running aggregates."""

from collections.abc import Callable, Collection, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, overload

from headrace.pipelines import arguments as check
from headrace.pipelines._errors import GraphError
from headrace.pipelines._windowed import Windowed, windowed
from headrace.pipelines.build import aggregation_of, check_state, own_name, stateful_step
from headrace.pipelines.flow_outputs import Outputs
from headrace.pipelines.formats import Format
from headrace.pipelines.programs.program import program_of
from headrace.pipelines.steps.aggregation import Aggregation, Window
from headrace.pipelines.steps.clock_ttl import clock_running
from headrace.pipelines.steps.columnar import StatefulColumns
from headrace.pipelines.steps.context import Context
from headrace.pipelines.steps.expiry import LastingRunning
from headrace.pipelines.steps.key_states import KeyStates
from headrace.pipelines.steps.program import StatefulProgram, payload
from headrace.pipelines.steps.running import Running
from headrace.pipelines.steps.step import OnError, Step
from headrace.pipelines.time.time import span
from headrace.pipelines.windows.late import Late
from headrace.pipelines.windows.windows import Count, Grid, Session

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.pipelines._flow import KeyedFlow

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")
S = TypeVar("S")
A = TypeVar("A")
R = TypeVar("R")


class States(Outputs[T_co]):
    """The steps of a keyed flow that have states."""

    def stateful(
        self,
        function: Callable[[T_co, S], U | None] | Callable[[T_co, S, Context], U | None],
        state: Callable[[], S],
        *,
        on_timer: Callable[[S, Context], U | None] | None = None,
        clock_every: timedelta | str | None = None,
        ttl: timedelta | str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[U]":
        """Applies a function to each value and the state of its key, which it may change. Results that are None are dropped.

        Args:
            function: Called with the values of each key in order, and the key's state. If it has a third parameter, it also
                receives a `Context`, which describes the value, and sets timers.
            state: Creates the state of a new key: a class, or a function that returns a list, dict, set or instance.
            on_timer: Called with a key's state and a `Context` when the watermark, or the clock, reaches a timer of the key.
            clock_every: How often, while streams are quiet, the clock is looked at for timers by the clock, from one second to a
                minute: a timedelta, or text such as "5 seconds". By default, there are no such timers.
            ttl: The event time without a value after which a key's state is removed: a timedelta, or text such as "1 hour".
            name: The step's name, which also identifies its states in the checkpoint: keep it if you rename the function. It is
                required for a lambda, or if another step has the function's name.
            on_error: The policy for values for which a function raises. The key's state is then the same as before the call.

        Raises:
            GraphError: The state is immutable, `on_timer` is given without a context, or `clock_every` without `on_timer`, one of
                it and `ttl` is not a positive duration, or the step needs a name.
        """
        return self._stateful(False, function, state, on_timer, clock_every, ttl, name, on_error)

    def stateful_flat(
        self,
        function: Callable[[T_co, S], Iterable[U] | None] | Callable[[T_co, S, Context], Iterable[U] | None],
        state: Callable[[], S],
        *,
        on_timer: Callable[[S, Context], Iterable[U] | None] | None = None,
        clock_every: timedelta | str | None = None,
        ttl: timedelta | str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[U]":
        """Like `stateful`, with functions that return or yield any number of results.

        Raises:
            GraphError: See `stateful`.
        """
        return self._stateful(True, function, state, on_timer, clock_every, ttl, name, on_error)

    def stateful_columns(
        self,
        function: "Callable[[pa.RecordBatch, KeyStates[S]], pa.RecordBatch | None]",
        state: Callable[[], S],
        *,
        headers: bool = False,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[Any]":
        """Applies a function to many values at once, with the states of their keys. It returns None for no results.

        Args:
            function: Called with a record batch that has a column `key`, with the values of each key in order, and the states:
                `states[key]` is the state of a key, which it may change.
            state: Creates the state of a new key.
            headers: Whether the batches have a column `headers`, as for `map_columns`.
            name: The step's name, which also identifies its states in the checkpoint.
            on_error: The policy for all values of a batch for which the function raises. It must raise before it changes states.

        Raises:
            GraphError: The step needs a name.
        """
        builder, method = self._builder, "stateful_columns"
        where = builder.where(name, own_name(function), method)
        check.function(where, "function", function, "batch", "states", instead_of_yield="return a record batch")
        check_state(where, state)
        check.flag(where, "headers", headers)
        policy = builder.policy(where, on_error)
        name = builder.name_for_states(name, own_name(function), method)
        return self._with(StatefulColumns(name, policy, function, state, headers))

    def stateful_program(
        self,
        command: Collection[str],
        *,
        state: Collection[str],
        name: str,
        files: Collection[str] = (),
        encode: Callable[[T_co], bytes | None] | Format[T_co] | None = None,
        timeout: timedelta | str = "30 seconds",
        on_error: OnError | None = None,
    ) -> "KeyedFlow[bytes]":
        """Has a program in any language process the values, with the states of their keys.

        Each worker starts the program once, and keeps it running. docs/write/programs.md describes the protocol that it speaks.

        Args:
            command: The command and its arguments, such as `["./votes"]`. A path is relative to the application's folder, and
                its file is shipped to the workers. A name without a slash must be installed on every machine.
            state: The names of the fields of a state. Their values are bytes.
            name: The step's name, which also identifies its states in the checkpoint.
            files: Further files and folders that the program needs, relative to the application's folder. They are shipped too.
            encode: A format, or a function that returns the payload of a value. By default, values must be bytes, text or
                messages.
            timeout: The time that the program has for up to 4,096 values: a timedelta, or text such as "1 minute".
            on_error: The policy for values for which `encode` raises, or which the program could not process. If the program
                ends or breaks the protocol, the query fails in any case.

        Raises:
            GraphError: A parameter is invalid, or another step has the name.
        """
        builder = self._builder
        where = builder.where(name, None, "stateful_program")
        if isinstance(encode, Format):
            encode = encode.encoder()
        elif encode is not None:
            check.function(where, "encode", encode, "value", instead_of_yield="yield in a flat_map before this step")
        policy = builder.policy(where, on_error)
        program = program_of(builder.name, name, command, state, files, timeout)
        name = builder.name_for_states(name, None, "stateful_program")
        return self._with(StatefulProgram(name, policy, program, encode or payload))

    @overload
    def window(
        self,
        windows: Grid | Session,
        *,
        delay: timedelta | str | None = None,
        late: Late = Late.DROP,
        emit_every: timedelta | str | None = None,
    ) -> Windowed[T_co, Window]: ...

    @overload
    def window(self, windows: Count) -> Windowed[T_co, None]: ...

    def window(
        self,
        windows: Grid | Session | Count,
        *,
        delay: timedelta | str | None = None,
        late: Late = Late.DROP,
        emit_every: timedelta | str | None = None,
    ) -> Windowed[T_co, Any]:
        """Groups the values of each key into windows.

        Args:
            windows: The windows: `tumbling(...)`, `sliding(...)`, `session(...)` or `count_window(...)`.
            delay: How far the watermark must be past a window's end before the window is closed, so that values that are out of
                order are still included: a timedelta, or text such as "10 seconds".
            late: What happens to values whose windows are all closed.
            emit_every: How often, by the clock, open windows that have changed make an early result, for which `Window.is_early`
                is true: a timedelta, or text such as "1 minute". By default, never.

        Raises:
            GraphError: `windows`, `delay` or `emit_every` are invalid, or one of the last three is given for windows that count
                values.
        """
        return windowed(self._builder, windows, delay, late, emit_every, self)

    @overload
    def aggregate(
        self,
        aggregation: Aggregation[T_co, Any, U],
        *,
        ttl: timedelta | str | None = None,
        clock_ttl: timedelta | str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[U]": ...

    @overload
    def aggregate(
        self,
        aggregation: Aggregation[T_co, Any, R],
        *,
        output: Callable[[Any, R, None], U | None],
        ttl: timedelta | str | None = None,
        clock_ttl: timedelta | str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[U]": ...

    @overload
    def aggregate(
        self,
        *,
        initial: Callable[[], A],
        update: Callable[[A, T_co], A],
        ttl: timedelta | str | None = None,
        clock_ttl: timedelta | str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[A]": ...

    @overload
    def aggregate(
        self,
        *,
        initial: Callable[[], A],
        update: Callable[[A, T_co], A],
        output: Callable[[Any, A, None], U | None],
        ttl: timedelta | str | None = None,
        clock_ttl: timedelta | str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[U]": ...

    def aggregate(
        self,
        aggregation: Aggregation[T_co, Any, Any] | None = None,
        *,
        initial: Callable[[], Any] | None = None,
        update: Callable[[Any, T_co], Any] | None = None,
        output: Callable[[Any, Any, Any], Any] | None = None,
        ttl: timedelta | str | None = None,
        clock_ttl: timedelta | str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[Any]":
        """Emits, for each value, the aggregate of all values of its key so far.

        Args:
            aggregation: The aggregation; or pass functions, as for `Windowed.aggregate`.
            initial: Returns a new accumulator.
            update: Returns the accumulator with another value.
            output: Returns the result for a key, an accumulator and None.
            ttl: The event time without a value after which a key's aggregate is removed, as for `stateful`.
            clock_ttl: The same by the clock: after the micro-batch of the last value, by when micro-batches were planned. A value
                in the micro-batch in which the aggregate would be removed still counts, also after an outage.
            name: The step's name, which also identifies its states in the checkpoint.
            on_error: The policy for values for which a function raises.

        Raises:
            GraphError: Neither or both of an aggregation and functions are given, a duration is not positive, both
                are given, or the step needs a name.
        """
        builder = self._builder
        where = builder.where(name, "aggregate", "aggregate")
        found = aggregation_of(where, aggregation, initial, update, None, output)
        lives = None if ttl is None else span(ttl, f"{where}: ttl")
        by_clock = None if clock_ttl is None else span(clock_ttl, f"{where}: clock_ttl")
        if lives is not None and by_clock is not None:
            raise GraphError(f"{where}: pass either ttl, by event time, or clock_ttl, by the clock")
        policy = builder.policy(where, on_error)
        name = builder.name_for_states(name, "aggregate", "aggregate")
        if by_clock is not None:
            return self._with(clock_running(name, policy, found, by_clock, builder.lag(self._number)))
        return self._with(Running(name, policy, found) if lives is None else LastingRunning(name, policy, found, lives))

    def _stateful(
        self,
        flat: bool,
        function: Callable[..., Any],
        state: Callable[[], Any],
        on_timer: Callable[..., Any] | None,
        clock_every: timedelta | str | None,
        ttl: timedelta | str | None,
        name: str | None,
        on_error: OnError | None,
    ) -> "KeyedFlow[Any]":
        builder, method = self._builder, "stateful_flat" if flat else "stateful"
        where = builder.where(name, own_name(function), method)
        step = stateful_step(
            where, builder.policy(where, on_error), flat, function, state, on_timer, ttl, clock_every, builder.lag(self._number)
        )
        return self._with(step(builder.name_for_states(name, own_name(function), method)))

    def _with(self, step: Step) -> "KeyedFlow[Any]":
        return self._keyed(self._builder.add(step, self._number))
