"""What a connector is: its name and guarantee, and how to build it. It is imported only when it is needed."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from headrace.connectors._errors import ConnectorUnavailable, MissingExtra
from headrace.contract.names import is_name

if TYPE_CHECKING:
    from headrace.connectors._parameters import Parameters
    from headrace.connectors.manifests._program import Program
    from headrace.sdk import (
        AsyncIdempotentSink,
        AsyncSink,
        AsyncSource,
        AsyncTwoPhaseSink,
        IdempotentSink,
        Sink,
        Source,
        TwoPhaseSink,
    )

AnyConnector: TypeAlias = (
    "Source | AsyncSource | Sink | AsyncSink | IdempotentSink | AsyncIdempotentSink | TwoPhaseSink | AsyncTwoPhaseSink"
)
"""Anything that `headrace.sdk.run` accepts."""
P = TypeVar("P", bound="Parameters")

BUNDLED = "headrace-connectors"
"""The distribution of the bundled connectors."""
VERSION = version(BUNDLED)
"""Its version, which they report."""
RESERVED = ("connector", "instance", "gateway", "verbose", "help")
"""Names of no parameter: every connector reserves them."""

_MODES = ("two-phase", "batch-idempotent", "at-least-once")
_OF_SINKS = {
    "two-phase": "exactly once: a message is visible if and only if its micro-batch is committed",
    "batch-idempotent": "exactly once: each transaction is written once, atomically with its id",
    "at-least-once": "at least once: what Spark redelivers after a fault is written again",
}


@dataclass(frozen=True, slots=True)
class Implementation(Generic[P]):
    """How to build a connector from its parameters.

    Attributes:
        parameters: The class of its parameters. One of them has the name of the connector's kind, `source` or `sink`, and is
            the name of the source or sink at the gateway.
        build: Builds it, without connecting to anything. For a connector in another language, that is a program to execute.
        check: Connects as the connector would, without changing anything, and returns a one-line description of what it found;
            raises a `HeadraceError` that states what is wrong and what to do. None if there is nothing to connect to.
    """

    parameters: type[P]
    build: "Callable[[P], AnyConnector | Program]"
    check: Callable[[P], str] | None = None


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector.

    Attributes:
        name: Its name for `headrace connector run`.
        kind: `source` or `sink`.
        replayable: Whether the same position always yields the same messages; None for a sink.
        mode: The guarantee of a sink: two-phase, batch-idempotent or at-least-once; None for a source.
        summary: Its system, and whether it reads or writes, in a line.
        module: Where its `Implementation` is, as `package.module:NAME`; imported only when it is needed.
        extra: The extra of its distribution that installs its client library; None if it needs none.
        loses: Whether messages may be lost, because the system that it reads does not store them.
        distribution: The distribution that it comes with. Headrace sets it for a connector that it finds as a plugin.

    Raises:
        ValueError: An attribute is invalid, or two of them contradict each other.
    """

    name: str
    kind: Literal["source", "sink"]
    replayable: bool | None
    mode: Literal["two-phase", "batch-idempotent", "at-least-once"] | None
    summary: str
    module: str
    extra: str | None = None
    loses: bool = False
    distribution: str = BUNDLED

    def __post_init__(self) -> None:
        if not is_name(self.name):
            raise ValueError(f"the name {self.name!r} may contain letters, digits and ._- only")
        if self.kind not in ("source", "sink"):
            raise ValueError(f"connector {self.name}: kind must be source or sink")
        if self.kind == "source" and (self.mode is not None or not isinstance(self.replayable, bool)):
            raise ValueError(f"connector {self.name}: a source has replayable, true or false, and no mode")
        if self.kind == "sink" and (self.mode not in _MODES or self.replayable is not None or self.loses):
            raise ValueError(f"connector {self.name}: a sink has a mode, one of {', '.join(_MODES)}, and no replayable or loses")
        if not self.summary or not self.summary.isprintable():
            raise ValueError(f"connector {self.name}: summary must be one line of text")

    @property
    def origin(self) -> str:
        """Where it comes from: `bundled`, a distribution, or a manifest."""
        return "bundled" if self.distribution == BUNDLED else self.distribution

    @property
    def program(self) -> dict[str, str | list[str]] | None:
        """The program of a connector, as its manifest describes it; None for a connector in Python."""
        return None

    @property
    def guarantee(self) -> str:
        """The delivery guarantee, in a sentence."""
        if self.kind == "sink":
            return _OF_SINKS[self.mode or "at-least-once"]
        if self.loses:
            return "best effort: messages sent while the connector is unavailable are lost, and some may arrive twice"
        if self.replayable:
            return "exactly once: the same position always yields the same messages"
        return "at least once: unacknowledged messages are redelivered after a fault"

    def load(self) -> Implementation[Any]:
        """Imports the connector.

        Raises:
            MissingExtra: Its client library is not installed.
            ConnectorUnavailable: It is a plugin, and cannot be imported or has invalid parameters.
        """
        if self.distribution == BUNDLED:
            return self._imported()
        try:
            implementation = self._imported()
            fault = self._fault(implementation)
        except ConnectorUnavailable:
            raise
        except (Exception, SystemExit) as error:
            fault = f"{self.module} cannot be imported: {one_line(error)}"
            raise ConnectorUnavailable(self.name, self.distribution, fault) from error
        if fault is not None:
            raise ConnectorUnavailable(self.name, self.distribution, fault)
        return implementation

    def require_usable(self) -> None:
        """Looks for what the connector needs on this machine, without connecting to anything.

        Raises:
            ConnectorUnavailable: Something is missing, or cannot be used.
        """
        self.load()

    def _imported(self) -> Implementation[Any]:
        module, _, name = self.module.partition(":")
        try:
            implementation: Implementation[Any] = getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            missing = error.name or ""
            is_own = missing.partition(".")[0] == "headrace" or f"{module}.".startswith(f"{missing}.")
            if self.extra is None or is_own:
                raise
            raise MissingExtra(self.name, self.distribution, self.extra, missing) from error
        return implementation

    def _fault(self, implementation: object) -> str | None:
        """Returns what is wrong with the implementation of a plugin; None if it can be used."""
        from headrace.connectors._declared import declared
        from headrace.connectors._parameters import Parameters

        if not isinstance(implementation, Implementation):
            return f"{self.module} is not an Implementation"
        model = implementation.parameters
        if not (isinstance(model, type) and issubclass(model, Parameters)):
            return f"the parameters of {self.module} are not a subclass of headrace.connectors.Parameters"
        parameters = {parameter.name: parameter for parameter in declared(model)}
        if self.kind not in parameters or not parameters[self.kind].required:
            return f"{model.__name__} has no required parameter {self.kind}, the name of the {self.kind} at the gateway"
        reserved = next((name for name in parameters if name in RESERVED), None)
        return None if reserved is None else f"{model.__name__}.{reserved}: the name is reserved; rename the parameter"


def one_line(error: BaseException) -> str:
    """Returns the class and the first line of an error."""
    said = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {''.join(filter(str.isprintable, said))}" if said else type(error).__name__
