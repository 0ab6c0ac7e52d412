"""The gateway's errors. An invalid configuration raises `headrace.configuration.ConfigurationError`.

GatewayError
└── ListenError     the gateway cannot listen on its address
"""

from headrace.contract.errors import HeadraceError


class GatewayError(HeadraceError):
    """The root of the errors that starting a gateway raises. Each class defines the exit code of the command."""

    exit_code = 1


class ListenError(GatewayError):
    """The gateway cannot listen on its address; the text gives the reason and the remedy."""

    exit_code = 3
