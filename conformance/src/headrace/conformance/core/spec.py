"""The specification of a connector: what the kit cannot find out by itself, in a TOML file."""

from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from headrace.configuration import ConfigurationFile
from headrace.conformance.core.errors import SpecError


class Deadlines(BaseModel):
    """How long things may take, in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    connect: float = Field(default=30, gt=0, description="From the start of the command, or the return of the gateway, to Hello.")
    answer: float = Field(default=15, gt=0, description="For anything else that the connector must do.")
    quiet: float = Field(default=0.5, gt=0, description="How long the kit watches that something does not happen.")
    shutdown: float = Field(default=20, gt=0, description="From SIGTERM, or the last acknowledgement, to the end of the process.")
    heartbeat: float = Field(default=6, gt=0, description="From one message to the next, for a connector that sends heartbeats.")
    command: float = Field(default=30, gt=0, description="For a command of this file.")


class Spec(BaseModel):
    """What sources and sinks declare alike."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    setup: str | None = Field(
        default=None, description="Command that is run before each check, such as one that makes the input."
    )
    restart: str | None = Field(
        default=None, description="Command that starts the connector again after it has ended or was killed. Default: COMMAND."
    )
    report: bool = Field(default=False, description="Whether it sends Report.")
    heartbeat: bool = Field(
        default=False,
        description="Whether it declares CAPABILITY_HEARTBEAT, and sends heartbeats.",
    )
    closed: str | None = Field(
        default=None,
        min_length=1,
        description="Text that the connector writes to standard output or to standard error whenever its `close` is called, and "
        "never otherwise.",
    )
    tls: str | None = Field(
        default=None,
        description="Arguments that are added to COMMAND so that it connects with TLS, and trusts the certificates in `{ca}`; "
        "empty if the variables are enough.",
    )
    mutual_tls: str | None = Field(
        default=None,
        description="Further arguments beside `tls`, so that it presents the certificate in `{certificate}`, whose "
        "key is in `{key}`.",
    )
    known_failures: tuple[str, ...] = Field(
        default=(), description="Checks that fail and are not to fail the run. The run fails if one of them passes."
    )
    deadlines: Deadlines = Field(default=Deadlines(), description="A table; see below.")

    def lack(self, need: str) -> str | None:
        """Why a check that needs something cannot be run; None where it can."""
        if need == "mutual_tls" and self.tls is None:
            return "not declared: tls"
        return None if getattr(self, need) not in (None, False, 0) else f"not declared: {need}"


class SourceSpec(Spec):
    """The specification of a source."""

    kind: Literal["replayable", "redelivering", "resumable"] = Field(
        default="replayable", description="How the source repeats messages."
    )
    messages: int = Field(
        default=0,
        ge=0,
        description="How many messages the source has when it is started, over all streams; at least 20 is useful.",
    )
    produce: str | None = Field(
        default=None,
        description="Command that adds `{count}` messages. With `{bytes}` in it, each has a value of that many bytes.",
    )
    ends: bool = Field(
        default=False, description="Whether each stream ends after its last message (CloseStream with end_of_stream)."
    )
    gone: bool = Field(
        default=False, description="Whether it never offers its streams again once they have ended (CloseStream with gone)."
    )
    chooses_start: bool = Field(default=False, description="Whether its streams are opened with chooses_start.")
    credit_request: bool = Field(default=False, description="Whether it sends CreditRequest.")
    backlog: bool = Field(default=False, description="Whether it reports Backlog with latest_sequence.")
    pace: bool = Field(default=False, description="Whether it follows Pace, and declares CAPABILITY_PACE. Needs `produce`.")
    lose: str | None = Field(
        default=None, description="Command that makes the source lose its first messages, so that it must send PositionLost."
    )

    def lack(self, need: str) -> str | None:
        """As `Spec.lack`."""
        if need in ("replayable", "redelivering", "resumable"):
            return None if self.kind == need else f"kind is {self.kind}"
        if need == "sizes":
            return None if "{bytes}" in (self.produce or "") else "not declared: produce with {bytes}"
        return super().lack(need)


class SinkSpec(Spec):
    """The specification of a sink."""

    mode: Literal["two-phase", "batch-idempotent", "at-least-once"] = Field(
        default="two-phase", description="The promise of the sink; its SinkHello must name the same."
    )
    read: str | None = Field(
        default=None,
        description="Command that prints what is visible at the sink, a line of JSON for each message: the value as text, or an "
        "object with `value` or `value_base64`.",
    )
    refused: str | None = Field(default=None, description="A value that the sink refuses permanently.")
    runs: bool = Field(
        default=False, description="Whether it declares CAPABILITY_RUNS: it keeps what several runs write of one batch apart."
    )

    def lack(self, need: str) -> str | None:
        """As `Spec.lack`."""
        if need in ("two-phase", "batch-idempotent", "at-least-once"):
            return None if self.mode == need else f"mode is {self.mode}"
        if need == "transactional":
            return None if self.mode != "at-least-once" else f"mode is {self.mode}"
        return super().lack(need)


S = TypeVar("S", bound=Spec)


def load_spec(model: type[S], path: Path | None, checks: tuple[str, ...]) -> S:
    """Reads a specification; without a file, everything has its default.

    Args:
        model: `SourceSpec` or `SinkSpec`.
        path: The file.
        checks: The names of all checks.

    Raises:
        ConfigurationError: The file cannot be read, or something in it is invalid.
        SpecError: A known failure is not the name of a check.
    """
    file = ConfigurationFile(path)
    spec = file.take(model, file.table())
    file.check()
    assert spec is not None
    if unknown := sorted(set(spec.known_failures) - set(checks)):
        raise SpecError(f"{path}: known_failures: there is no check {unknown[0]}; --list shows all")
    return spec
