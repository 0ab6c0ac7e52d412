"""A black-box kit that judges connectors: `headrace-conformance`; `headrace` mounts its commands as `conformance`.

It plays the gateway for a connector that is started by any command, over a real gRPC connection, and checks each rule of the
protocol. `docs/write/conformance.md` is its documentation.
"""

from headrace.conformance.command import conformance, main, program

__all__ = ["conformance", "main", "program"]
