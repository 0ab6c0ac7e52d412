"""Asks the supervisor of a running deployment to restart a connector."""

import json
import socket
from pathlib import Path
from typing import Any

from headrace.deploy.control import address_in
from headrace.deploy.errors import CannotRestart, NotRunning

_LARGEST_ANSWER_BYTES = 64 << 10


def ask_restart(folder: Path, name: str, timeout_s: float) -> dict[str, Any]:
    """Restarts a connector, and waits until it has a session at the gateway again.

    Args:
        folder: The folder of the deployment.
        name: The connector.
        timeout_s: How long to wait, in seconds.

    Returns:
        What has happened: `name`, `state`, `pid`, `stopped_pid`, `stopped_exit_code` and `seconds`.

    Raises:
        NotRunning: The deployment does not run.
        CannotRestart: It cannot be restarted, it has failed, or the caller may not do this.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_s)
        try:
            with address_in(folder) as address:
                connection.connect(address)
            connection.sendall(json.dumps({"command": "restart", "name": name}).encode() + b"\n")
            with connection.makefile("rb") as answers:
                line = answers.readline(_LARGEST_ANSWER_BYTES)
        except (FileNotFoundError, ConnectionRefusedError):
            raise NotRunning(f"no deployment runs in {folder}; headrace run starts one") from None
        except PermissionError:
            raise CannotRestart("only the user who runs the deployment, and root, may restart its connectors", 1) from None
        except TimeoutError:
            said = f"no answer within {timeout_s:g} s; the restart goes on, and the output of the deployment says how it ends"
            raise CannotRestart(said, 1) from None
        except BlockingIOError:
            raise CannotRestart("too many requests wait for the supervisor of the deployment; try again", 1) from None
        except ConnectionError:
            line = b""
    if not line:
        raise CannotRestart("the deployment has ended before it answered", 1)
    answer = json.loads(line)
    if not answer["ok"]:
        raise CannotRestart(answer["error"], 2 if answer["invalid"] else 1)
    result: dict[str, Any] = answer["result"]
    return result
