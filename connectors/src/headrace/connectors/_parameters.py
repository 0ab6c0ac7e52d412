"""What a connector can be told, declared once: the command line, configuration files, their schema and the pages come from it."""

from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

from headrace.connectors._declared import takes_several


class Parameters(BaseModel):
    """The parameters of a connector: subclass it, with a type, a default and a `Field(description=...)` for each.

    A parameter without a default is required; one of type `SecretStr` is never shown. Its validators raise `ValueError` with a
    sentence that says what to write instead. The docstring is what `headrace connector run NAME --help` says, and `examples` of a
    field stand in the command line that it shows.

    A parameter may be text, a number, true or false, a `Literal`, an `Enum` of texts, a `Path`, a list of these, or a dict of
    texts; or any of them or None. A list may be given as the one value that is in it. Paths in a configuration file are relative
    to its folder. None is called connector, instance, gateway, verbose or help, which are said of every connector.
    """

    last: ClassVar[tuple[str, ...]] = ()
    """Parameters that come after all others, wherever they are declared."""

    # Inputs stay out of errors: one of them may be a secret.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @field_validator("*", mode="before")
    @classmethod
    def _one_of_several(cls, value: Any, info: ValidationInfo) -> Any:
        """Takes one value as a list of one."""
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
