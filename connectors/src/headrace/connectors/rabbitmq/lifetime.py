"""Whether a queue goes with its last consumer. AMQP tells the properties of a queue only by refusing another declaration."""

import re
from dataclasses import dataclass, replace

from pika.channel import Channel

from headrace.connectors.rabbitmq._errors import explain
from headrace.connectors.rabbitmq.link import Link

_DIFFERS = re.compile(
    r"inequivalent arg '(?P<name>[^']+)' for .*: received .* but current is (?:the value )?(?P<found>.*)", re.DOTALL
)
_VALUE = re.compile(r"'([^']*)'")
_ACCESS_REFUSED, _PRECONDITION_FAILED = 403, 406
# A queue that has gone in the meantime is created by the declaration, and goes at once.
_EXPIRES_MS = 1
_MAX_QUESTIONS = 8
_DELIVERY_LIMIT = "x-delivery-limit"


@dataclass(frozen=True, slots=True)
class Lifetime:
    """When a queue goes, with the messages in it.

    Attributes:
        temporary: The property by which it goes once it has no consumer; None if it stays.
        transient: Whether it goes when its broker restarts.
        unknown: Why the broker does not tell; None if it does.
    """

    temporary: str | None = None
    transient: bool = False
    unknown: str | None = None
    delivery_limit: int | None = None
    """How often a quorum queue delivers a message in vain; None if the broker does not tell. Negative is without limit."""


async def lifetime_of(link: Link, queue: str) -> Lifetime:
    """Returns the lifetime of a queue that exists. A policy of the broker that makes queues expire is not visible to clients.

    Raises:
        RabbitMQError: The connection is lost, or the queue is exclusive to another one.
    """
    arguments: dict[str, object] = {"x-expires": _EXPIRES_MS}
    found = await _lifetime(link, queue, arguments)
    limit = arguments.get(_DELIVERY_LIMIT)
    return replace(found, delivery_limit=limit) if isinstance(limit, int) else found


async def _lifetime(link: Link, queue: str, arguments: dict[str, object]) -> Lifetime:
    """Asks until the lifetime is known; adds what the broker reports of the queue's arguments meanwhile."""
    durable = True
    for _ in range(_MAX_QUESTIONS):

        def declare(channel: Channel, done: object, durable: bool = durable) -> None:
            channel.queue_declare(queue, durable=durable, auto_delete=False, arguments=arguments, callback=done)

        refused = await link.refusal(declare)
        if refused is None:
            return Lifetime(transient=not durable)
        if refused.reply_code == _ACCESS_REFUSED:
            return Lifetime(unknown="the user has no permission to configure it")
        if refused.reply_code != _PRECONDITION_FAILED:
            raise explain(refused, link.broker)
        differs = _DIFFERS.search(refused.reply_text)
        if differs is None:
            return Lifetime(unknown=refused.reply_text)
        name, found = differs["name"], _VALUE.search(differs["found"])
        if name == "durable":
            durable = not durable
        elif name == "auto_delete":
            return Lifetime("it is auto-delete", transient=not durable)
        elif name == "x-expires":
            return Lifetime(None if found is None else f"it has x-expires, {found[1]} ms", transient=not durable)
        elif found is not None:
            is_number = found[1].isdigit() and "longstr" not in differs["found"]
            arguments[name] = int(found[1]) if is_number else found[1]
        else:
            return Lifetime(unknown=refused.reply_text)
    return Lifetime(unknown="it has too many arguments")
