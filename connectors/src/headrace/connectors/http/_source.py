"""The `http` source: receives webhooks, and answers them once they are in the checkpoint."""

from headrace.connectors.bad_records import BadRecordPolicy
from headrace.connectors.http._parameters import HttpParameters
from headrace.connectors.http.server import Received, Server
from headrace.connectors.inbox import Inbox, Room
from headrace.connectors.listening_source import ListeningSource


class HttpSource(ListeningSource):
    """Receives POST requests as messages: one partition for each path, or one for all.

    A request that has no 2xx response yet is sent again in the next session, as long as its client waits.
    """

    connector = "http"

    def __init__(self, parameters: HttpParameters) -> None:
        """Creates a source that does not listen yet."""
        room = Room(parameters.max_waiting_messages, parameters.max_waiting_bytes)
        inboxes: dict[str, Inbox[Received]] = {name: Inbox(room) for name in parameters.partitions}
        policy = BadRecordPolicy.of(parameters.source, parameters)
        super().__init__(parameters.source, policy, Server(parameters, inboxes, room), inboxes)
