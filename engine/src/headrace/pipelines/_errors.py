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


def no_time() -> ValueError:
    """Why an element without event time goes no further."""
    return ValueError("it has no event time; say when values happened with event_time(...) before the first key_by")
