"""The `tcp` source: receives length-prefixed messages from clients, without answering them."""

from headrace.connectors.bad_records import BadRecordPolicy
from headrace.connectors.listening_source import ListeningSource
from headrace.connectors.tcp._parameters import TcpParameters
from headrace.connectors.tcp.server import Server


class TcpSource(ListeningSource):
    """Receives length-prefixed messages, and keeps the order of each client. All clients share one partition.

    It keeps what it has received until it is in the checkpoint. Losing a gateway or a query loses no messages; losing this
    process does.
    """

    connector = "tcp"

    def __init__(self, parameters: TcpParameters) -> None:
        """Creates a source that does not listen yet."""
        server = Server(parameters)
        policy = BadRecordPolicy.of(parameters.source, parameters)
        super().__init__(parameters.source, policy, server, {"0": server.inbox})
