"""Contracts: what happens to fields that a class does not have, and to values that do not fit."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from headrace.pipelines import arguments
from headrace.pipelines._errors import FormatError, GraphError, Unavailable
from headrace.pipelines.arguments import excerpt
from headrace.pipelines.formats._format import Decoder, Format
from headrace.pipelines.formats._json import Json
from headrace.pipelines.formats.document_fields import further_fields
from headrace.pipelines.formats.records import called, is_protobuf
from headrace.pipelines.formats.strict_twin import strict_twin

Mode = Literal["evolve", "freeze", "discard"]
_FIELD_MODES, _TYPE_MODES = ("evolve", "freeze", "discard"), ("freeze", "discard")
_PLACE = re.compile(r" - at `\$(.*)`$")
_PARTS = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_MAX_DISCARDED = 64
"""How many values of one message are discarded before it is refused."""


@dataclass(frozen=True)
class Contract:
    """Decides about messages that do not match their class.

    ```python
    app.source("orders/*", decode=json(Order), contract="freeze")
    app.source("orders/*", decode=json(Order), contract={
        "orders/eu-*": Contract(fields={"debug*": "discard", "*": "freeze"}, types={"note": "discard"}),
        "orders/*": "evolve",
    })
    ```

    A path has the names of fields, with dots between them: `lines.price`. In a pattern, `*` matches any text; the first pattern
    that matches decides.

    Attributes:
        fields: What happens if a message has fields that the class does not have. With `evolve`, the message passes, and each new
            field is logged once; with `freeze`, the source's `on_error` decides; with `discard`, such fields are ignored. A mode
            for all, or for each pattern of paths; `discard` where none matches.
        types: What happens to a value that does not fit its field. With `freeze`, the source's `on_error` decides; with
            `discard`, the value is ignored, and the field gets its default. A mode for all, or for each
            pattern of paths; `freeze` where none matches.

    Raises:
        GraphError: A mode is none of these.
    """

    fields: Mode | Mapping[str, Mode] = "discard"
    types: Literal["freeze", "discard"] | Mapping[str, Literal["freeze", "discard"]] = "freeze"

    def __post_init__(self) -> None:
        """Checks the modes."""
        for name, given, modes in (("fields", self.fields, _FIELD_MODES), ("types", self.types, _TYPE_MODES)):
            patterns = given if isinstance(given, Mapping) else {"*": given}
            for pattern, mode in patterns.items():
                if not isinstance(pattern, str) or mode not in modes:
                    wanted = ", ".join(modes)
                    raise GraphError(f"contract: {name} has {excerpt(pattern)}: {excerpt(mode)}, and a mode is one of {wanted}")

    def mode_of_field(self, path: str) -> str:
        """Returns what happens to a field that the class does not have."""
        return _mode_of(self.fields, path, "discard")

    def mode_of_type(self, path: str) -> str:
        """Returns what happens to a value that does not fit its field."""
        return _mode_of(self.types, path, "freeze")


def _mode_of(modes: str | Mapping[str, str], path: str, default: str) -> str:
    if isinstance(modes, str):
        return modes
    return next((mode for pattern, mode in modes.items() if _is_match(pattern, path)), default)


def _is_match(pattern: str, path: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), path, re.DOTALL) is not None


class Violation(FormatError):
    """A message does not match its class, and its contract is frozen."""


@dataclass(frozen=True)
class Judged:
    """A value whose message was compared to its class.

    Attributes:
        value: The value; None for a null that is dropped.
        further: The paths of further fields that are to be noted.
        discarded: The paths of values that did not fit, and were discarded.
    """

    value: Any
    further: tuple[str, ...] = ()
    discarded: tuple[str, ...] = ()


@dataclass(frozen=True)
class Judge:
    """Reads payloads under a contract. Another process makes its own.

    Attributes:
        format: The format.
        contract: The contract.
    """

    format: Format[Any]
    contract: Contract
    _read: Decoder[Any] = field(init=False, repr=False, compare=False)
    _document: Callable[[bytes | None], Any] = field(init=False, repr=False, compare=False)
    _further: Callable[[Any], list[str]] = field(init=False, repr=False, compare=False)
    _accept: Callable[[bytes], Any] | None = field(init=False, repr=False, compare=False)
    """Raises for a payload with further fields, and for some others; None if nothing does."""

    def __post_init__(self) -> None:
        """Checks that the format has fields to compare.

        Raises:
            GraphError: It has none.
        """
        form, kind = self.format, getattr(self.format, "kind", None)
        if kind is None or is_protobuf(kind):
            raise GraphError(f"{form.name} has no fields to compare: a contract needs a class, such as a dataclass")
        if self._discards_values and not isinstance(form, Json):
            raise GraphError(f"{form.name}: only of JSON without a registry, types may be discarded")
        try:
            further = further_fields(kind)
        except Exception as error:
            raise GraphError(f"{called(kind)} has no JSON schema, which a contract needs: {error}") from error
        twin = strict_twin(kind) if isinstance(form, Json) else None
        object.__setattr__(self, "_accept", None if twin is None else msgspec.json.Decoder(twin | None).decode)
        object.__setattr__(self, "_read", form.decoder())
        object.__setattr__(self, "_document", form.without_class().decoder())
        object.__setattr__(self, "_further", further)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.format, self.contract)

    @property
    def _discards_values(self) -> bool:
        return self.contract.types != "freeze"

    @property
    def looks_at_fields(self) -> bool:
        """Whether further fields are of interest."""
        return self.contract.fields != "discard"

    def at_once(self, payloads: Sequence[Any]) -> list[Any] | None:
        """Returns the values of many payloads without anything to note; None if each must be judged alone."""
        if self.looks_at_fields:
            if self._accept is None:
                return None
            try:
                for _ in map(self._accept, payloads):
                    pass
            except Exception:
                return None
        return self._read.at_once(payloads)

    def __call__(self, payload: bytes | None) -> Judged:
        """Returns the value of a payload.

        Raises:
            FormatError: It cannot be read; a `Violation` if the contract does not permit it.
            Unavailable: A registry does not answer.
        """
        discarded = tuple[str, ...]()
        try:
            value = self._read(payload)
        except Unavailable:
            raise
        except FormatError as error:
            if payload is None:
                raise
            if not self._discards_values:
                raise Violation(str(error)) from error
            value, discarded = self._without_values(payload, error)
        if value is None or not self.looks_at_fields:
            return Judged(value, (), discarded)
        noted = list[str]()
        for path in self._further(self._document(payload)):
            mode = self.contract.mode_of_field(path)
            if mode == "freeze":
                raise Violation(f"{self.format.name}: the class has no field {path}, and the contract is frozen")
            if mode == "evolve":
                noted.append(path)
        return Judged(value, tuple(noted), discarded)

    def _without_values(self, payload: bytes, error: FormatError) -> tuple[Any, tuple[str, ...]]:
        """Reads a payload without the values that do not fit, if the contract permits it for all of them.

        Raises:
            Violation: It does not.
        """
        discarded = list[str]()
        while len(discarded) < _MAX_DISCARDED:
            place = _PLACE.search(str(error))
            parts = [name or int(index) for name, index in _PARTS.findall(place[1])] if place else []
            path = ".".join(part for part in parts if isinstance(part, str))
            if not parts or "[...]" in str(error) or self.contract.mode_of_type(path) == "freeze":
                break
            try:
                payload = _without(payload, parts)
            except (LookupError, msgspec.DecodeError):
                break
            discarded.append(path)
            try:
                return self._read(payload), tuple(discarded)
            except FormatError as another:
                error = another
        raise Violation(str(error)) from error


def _without(payload: bytes, parts: list[str | int]) -> bytes:
    """Returns an object of JSON without a value of it.

    Raises:
        LookupError: There is no such value, or it is an element of a list.
        msgspec.DecodeError: The payload is not such an object.
    """
    first, *rest = parts
    if isinstance(first, int):
        if not rest:
            raise LookupError("an element of a list has no default")
        elements = msgspec.json.decode(payload, type=list[msgspec.Raw])
        elements[first] = msgspec.Raw(_without(bytes(elements[first]), rest))
        return msgspec.json.encode(elements)
    fields = msgspec.json.decode(payload, type=dict[str, msgspec.Raw])
    if rest:
        fields[first] = msgspec.Raw(_without(bytes(fields[first]), rest))
    else:
        del fields[first]
    return msgspec.json.encode(fields)


EVERY = "*/*"
"""The pattern of all streams."""
Given = Contract | Mode | Mapping[str, Contract | Mode]
"""A contract, a mode for further fields, or one of these for each pattern of streams."""


def judges(where: str, format: Any, contract: Given) -> Mapping[str, Judge]:
    """Returns what reads the payloads of streams, by pattern.

    Args:
        where: The source, for errors.
        format: The format, or what else the source decodes with.
        contract: The contract.

    Raises:
        GraphError: The contract is invalid, or the format has no fields to compare.
    """
    if not isinstance(format, Format):
        raise GraphError(f"{where}: contract needs a format such as json(Order) to decode with")
    by_pattern = contract if isinstance(contract, Mapping) else {EVERY: contract}
    found = dict[str, Judge]()
    for pattern, one in by_pattern.items():
        (pattern,) = arguments.patterns(f"{where}: contract", pattern)
        try:
            found[pattern] = Judge(format, one if isinstance(one, Contract) else Contract(fields=one))
        except GraphError as error:
            raise GraphError(f"{where}: contract: {error}") from error
    return found
