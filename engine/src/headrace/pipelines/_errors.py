"""What can go wrong in a pipeline.

PipelineError
├── GraphError     the pipeline is put together wrongly
├── StepError      a function of the application raised; names step, key, stream and sequence
└── StateError     stored state does not fit the classes that the pipeline has now
"""


class PipelineError(Exception):
    """The root of all errors of pipelines."""


class GraphError(PipelineError, ValueError):
    """The pipeline is put together wrongly. Raised while it is built, before anything runs."""


class StepError(PipelineError):
    """A function of the application raised, and its policy is to fail."""


class StateError(PipelineError):
    """Stored state does not fit the classes that the pipeline has now."""


def no_step(step: str) -> StateError:
    """Why a pipeline cannot go on with states of a step that it has not."""
    return StateError(
        f"the checkpoint has states of step {step}, and the pipeline has no such step there any more: give a step "
        f"its old name again, or have them dropped: headrace run --drop-states {step}"
    )


def no_time() -> ValueError:
    """Why an element without event time goes no further."""
    return ValueError("it has no event time; say when values happened with event_time(...) before the first key_by")
