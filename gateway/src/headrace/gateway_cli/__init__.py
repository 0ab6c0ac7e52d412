"""The command line of a gateway: `headrace-gateway`, whose commands `headrace` has, too. Only what runs one loads the gateway."""

from headrace.gateway_cli._forget import forget
from headrace.gateway_cli._gateway import gateway
from headrace.gateway_cli._program import main, program
from headrace.gateway_cli._status import status

__all__ = ["forget", "gateway", "main", "program", "status"]
