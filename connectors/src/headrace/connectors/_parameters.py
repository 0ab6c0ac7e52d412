"""The parameters of a connector, declared once for the command line, configuration files, their schema and the documentation."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationInfo, field_validator

from headrace.connectors._declared import takes_several


class Parameters(BaseModel):
    """The parameters of a connector: subclass it, with a type, a default and a `Field(description=...)` for each.

    A parameter without a default is required; one of type `SecretStr` is never shown. Validators raise `ValueError` with a
    sentence that states what to write instead. `headrace connector run NAME --help` shows the docstring, and uses the `examples`
    of fields in its example command.

    A parameter may be text, a number, true or false, a `Literal`, an `Enum` of texts, a `Path`, a list of these, or a dict of
    texts; or any of them or None. A list of one may be given as the single value. Paths in a configuration file are relative to
    its folder. No parameter may be named connector, instance, gateway, verbose or help, which every connector has.
    """

    last: ClassVar[tuple[str, ...]] = ()
    """Parameters that are listed after all others, wherever they are declared."""

    # Errors do not show inputs, which may be secrets.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @field_validator("*", mode="before")
    @classmethod
    def _one_of_several(cls, value: Any, info: ValidationInfo) -> Any:
        """Turns a single value into a list of one."""
        field = cls.model_fields[info.field_name or ""]
        one = isinstance(value, str | int | float | Path) and takes_several(field.annotation)
        return [value] if one else value

    @field_validator("*", mode="after")
    @classmethod
    def _from_folder(cls, value: Any, info: ValidationInfo) -> Any:
        """Makes paths of a configuration file absolute."""
        folder = (info.context or {}).get("folder")
        if folder is None:
            return value
        if isinstance(value, Path):
            return folder / value.expanduser()
        if isinstance(value, tuple | list):
            return type(value)(folder / one.expanduser() if isinstance(one, Path) else one for one in value)
        return value


class SystemParameters(Parameters):
    """The parameters of a connector that connects to a system, and whether it has reached the system.

    Certificates and authorities are never replaced on both sides at the same moment. So what both sides present may not fit for
    a while: a connector that has reached its system waits until it does; one that never has is configured wrongly.
    """

    _reached: set[str] = PrivateAttr(default_factory=set)

    def note_reached(self, library: str = "") -> None:
        """Notes that the system was reached, by one client library if the connector has several. Any thread may call it."""
        self._reached.add(library)

    def was_reached(self, library: str = "") -> bool:
        """Returns whether the system was ever reached with these parameters, by this client library."""
        return library in self._reached


def start_of(text: str) -> str | datetime:
    """Parses where a new query begins: `earliest`, `latest`, or a time, which is in UTC if it names no zone.

    Raises:
        ValueError: The text is none of them.
    """
    if text in ("earliest", "latest"):
        return text
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"start: {text!r}: write earliest, latest, or a time such as 2026-01-31T12:00:00Z") from None
    time = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    if time.timestamp() < 0:
        raise ValueError(f"start: {text!r} is before 1970, which is older than any message")
    return time
