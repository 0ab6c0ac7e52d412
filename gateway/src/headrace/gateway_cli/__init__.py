"""The command line of a gateway: `headrace-gateway`, which `headrace gateway` is, too. It loads the gateway when it runs one."""

from headrace.gateway_cli._gateway import gateway, main, program

__all__ = ["gateway", "main", "program"]
