"""Whether a consumer that exists is suitable."""

from nats.js.api import AckPolicy, ConsumerInfo

from headrace.connectors.nats._errors import NatsRefused
from headrace.connectors.nats._parameters import NatsConsumerParameters


def check_consumer(info: ConsumerInfo, parameters: NatsConsumerParameters) -> None:
    """Checks that a consumer is suitable for this connector.

    Raises:
        NatsRefused: It is not suitable.
    """
    what, config, wanted = described(parameters), info.config, set(parameters.subjects)
    filters = {config.filter_subject, *(config.filter_subjects or ())} - {None, ""}
    if config.deliver_subject:
        raise NatsRefused(f"{what} is a push consumer; name a pull consumer, or one that does not exist yet")
    if config.ack_policy != AckPolicy.EXPLICIT:
        raise NatsRefused(f"{what} has ack policy {config.ack_policy}; name one with explicit acknowledgements")
    if config.headers_only:
        raise NatsRefused(f"{what} has headers_only: its messages come without their values; name one that delivers them")
    if wanted and filters != wanted:
        found = ", ".join(sorted(map(str, filters))) or "all subjects"
        raise NatsRefused(f"{what} reads {found}; delete it, or remove the parameter subjects")


def described(parameters: NatsConsumerParameters) -> str:
    """Describes the consumer, for messages."""
    return f"consumer {parameters.consumer} of stream {parameters.stream}"
