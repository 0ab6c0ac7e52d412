"""The errors of pipelines.

PipelineError
├── GraphError     the pipeline is invalid
├── StepError      a function of the application raised; names step, key, stream and sequence
├── FormatError    a payload is not of its format, or a value cannot be written in it
├── Unavailable    something that a step needs does not answer; no policy applies
├── ProgramError   the program of a step cannot be started, has ended, is late, or has broken the protocol
├── StateError     stored states do not match the classes or steps of the pipeline
└── TrialError     a trial was given, or asked for, something that its pipeline does not have
"""

from headrace.contract.counts import counted
from headrace.contract.errors import HeadraceError

_MAX_REASON = 4_000
"""The length of the text of an error about one value, in characters."""


class PipelineError(HeadraceError):
    """The root of all errors of pipelines."""


class GraphError(PipelineError, ValueError):
    """The pipeline is invalid. Raised while it is built, before anything runs."""


class StepError(PipelineError):
    """A function of the application raised, and its step's policy is `OnError.FAIL`."""


class FormatError(PipelineError, ValueError):
    """A payload is not of its format, or a value cannot be written in it; the text names the format and the field."""


class Unavailable(PipelineError):
    """Something that a step needs, such as a schema registry, does not answer. The query fails, whatever `on_error` says."""


class ProgramError(PipelineError):
    """The program of a step cannot be started, has ended, has not answered in time, or has broken the protocol."""


class StateError(PipelineError):
    """A state cannot be stored, or stored states do not match the classes or the steps of the pipeline."""


class NotStored(StateError):
    """A state of a step cannot be stored.

    Args:
        step: The name of the step.
        reason: Why.
        key: The key of the state, if it is known.
    """

    def __init__(self, step: str, reason: str, key: object = None) -> None:
        where = f"step {step}" if key is None else f"step {step}, key {key!r}"
        super().__init__(f"{where}: a state cannot be stored: {reason}; keep plain data in states")
        self.step, self.reason = step, reason

    def __reduce__(self) -> tuple[type[StateError], tuple[str]]:
        """Crosses to other processes as its text."""
        return StateError, (str(self),)


class TrialError(PipelineError, KeyError):
    """A `Trial` was given, or asked for, something that its pipeline does not have. A test that continues would show nothing."""

    # The message itself: a KeyError shows its repr.
    __str__ = Exception.__str__


def no_step(step: str) -> StateError:
    """Returns the error for stored states of a step that the pipeline does not have."""
    return StateError(
        f"the checkpoint has states of step {step}, but the pipeline has no such step at this place: restore the step's "
        f"old name, or drop the states: headrace run --drop-states {step}"
    )


def no_time() -> ValueError:
    """Returns the error for an element without event time, in a step that needs one."""
    return ValueError("it has no event time; assign one with event_time(...) before the first key_by")


def too_many_keys(limit: int) -> ValueError:
    """Returns the error for an element of a new key in a step that has as many keys as it may."""
    return ValueError(
        f"the step has {counted(limit, 'key')} with a state in this bucket, which is the pipeline's max_keys: let states expire "
        "with a ttl or forget(), use more buckets, or raise max_keys"
    )


def text_of(error: BaseException) -> str:
    """Returns the text of an error of the application's code, which may have none, or one that is not valid Unicode."""
    try:
        text = str(error)
    except Exception as another:
        return f"(its text cannot be read: __str__ raises {type(another).__name__})"
    return text.encode(errors="backslashreplace").decode()


def reason_of(error: BaseException) -> str:
    """Returns the text of an error for a log, a column or a header of a dead letter, which a long one would not fit into."""
    text = text_of(error)
    return text if len(text) <= _MAX_REASON else f"{text[:_MAX_REASON]}... ({len(text):,} characters)"
