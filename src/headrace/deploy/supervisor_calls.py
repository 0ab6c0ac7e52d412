"""Asks the supervisor of a running deployment for its processes, and to restart one."""

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.configuration import ConfigurationError
from headrace.deploy.configuration import run_folder
from headrace.deploy.control import SOCKET_FILE, address_in
from headrace.deploy.errors import CannotAsk, CannotRestart, NotRunning

_MAX_ANSWER_BYTES = 1 << 20
_OF_PROCESS: Mapping[str, tuple[type, Any]] = {
    "name": (str, "?"),
    "kind": (str, "?"),
    "pipelines": (list, []),
    "state": (str, "?"),
    "state_age_ms": (int, None),
    "restarts": (int, None),
    "reason": (str, None),
    "reason_age_ms": (int, None),
    "log_fault": (str, None),
    "log_fault_age_ms": (int, None),
    "last_warning": (str, None),
    "next_start_ms": (int, None),
    "version": (str, None),
    "memory_bytes": (int, None),
    "pid": (int, None),
}
_OF_DEPLOYMENT: Mapping[str, tuple[type, Any]] = {
    "gateway_fault": (str, None),
    "file_fault": (str, None),
    "file_fault_age_ms": (int, None),
}
_OF_RESTART: Mapping[str, tuple[type, Any]] = {
    "name": (str, "?"),
    "state": (str, "?"),
    "pid": (int, None),
    "stopped_pid": (int, None),
    "stopped_exit_code": (int, None),
    "duration_ms": (int, None),
}
"""The fields of answers, their types, and what they are if the supervisor, which may be of another version, does not tell."""


def folder_of(deployment: Path) -> Path:
    """Returns the folder of a deployment, also of one that runs on although its file has become invalid or is gone.

    Raises:
        ConfigurationError: The file cannot be read, or is invalid, and no supervisor is in the folder beside it.
    """
    try:
        return run_folder(deployment)
    except ConfigurationError:
        beside = deployment.absolute().with_suffix(".run")
        if not (beside / SOCKET_FILE).is_socket():
            raise
        return beside


def ask_restart(folder: Path, name: str, timeout_s: float) -> dict[str, Any]:
    """Restarts a connector, and waits until it has a session at the gateway again.

    Args:
        folder: The folder of the deployment.
        name: The connector.
        timeout_s: How long to wait, in seconds.

    Returns:
        What has happened: `name`, `state`, `pid`, `stopped_pid`, `stopped_exit_code` and `duration_ms`, which is None if the
        supervisor is of a version that does not tell.

    Raises:
        NotRunning: The deployment does not run.
        CannotRestart: It cannot be restarted, it has failed, or the caller may not do this.
    """
    return {**_fields_of(_ask(folder, {"command": "restart", "name": name}, timeout_s), _OF_RESTART), "name": name}


def ask_processes(folder: Path, timeout_s: float) -> list[dict[str, Any]]:
    """Returns the processes of a deployment, with the keys of the gateway's status.

    Args:
        folder: The folder of the deployment.
        timeout_s: How long to wait for each answer, in seconds.

    Raises:
        NotRunning: The deployment does not run.
        CannotAsk: The supervisor does not answer, or the caller may not ask.
    """
    processes: list[dict[str, Any]] = ask_deployment(folder, timeout_s)["processes"]
    return processes


def ask_deployment(folder: Path, timeout_s: float) -> dict[str, Any]:
    """Returns `processes` of a deployment, why it is not registered at its gateway, and why its file is invalid, or None.

    The keys are `processes`, `gateway_fault`, `file_fault` and `file_fault_age_ms`.

    Args:
        folder: The folder of the deployment.
        timeout_s: How long to wait for each answer, in seconds.

    Raises:
        NotRunning: The deployment does not run.
        CannotAsk: The supervisor does not answer, or the caller may not ask.
    """
    found: list[dict[str, Any]] = []
    while True:
        result = _ask(folder, {"command": "processes", "from": len(found)}, timeout_s)
        listed = _fields_of(result, {"processes": (list, []), "processes_in_all": (int, 0)})
        found += [_fields_of(one, _OF_PROCESS) for one in listed["processes"]]
        if not listed["processes"] or len(found) >= listed["processes_in_all"]:
            return {"processes": found, **_fields_of(result, _OF_DEPLOYMENT)}


def _fields_of(answer: object, fields: Mapping[str, tuple[type, Any]]) -> dict[str, Any]:
    """Returns fields of an answer. The supervisor may have been started by another version: it may lack some, or have more."""
    given = answer if isinstance(answer, dict) else {}
    return {name: given[name] if isinstance(given.get(name), kind) else other for name, (kind, other) in fields.items()}


def _ask(folder: Path, request: dict[str, Any], timeout_s: float) -> object:
    """Sends a request to the supervisor of a folder, and returns the result of its answer, which is no refusal."""
    is_restart = request["command"] == "restart"
    refused = CannotRestart if is_restart else CannotAsk
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_s)
        try:
            with address_in(folder) as address:
                connection.connect(address)
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as answers:
                line = answers.readline(_MAX_ANSWER_BYTES)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            raise NotRunning(f"no deployment runs in {folder}; headrace run starts one") from None
        except PermissionError:
            what = "restart its connectors" if is_restart else "ask for its processes"
            raise refused(f"only the user who runs the deployment, and root, may {what}", 1) from None
        except TimeoutError:
            said = "; the restart continues, and the output of the deployment says how it ends" if is_restart else ""
            raise refused(f"no answer within {timeout_s:g} s{said}", 1) from None
        except BlockingIOError:
            raise refused("too many requests wait for the supervisor of the deployment; try again", 1) from None
        except ConnectionError:
            line = b""
    if not line.endswith(b"\n"):
        raise refused("the deployment has ended before it answered", 1)
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict) or "ok" not in answer:
        raise refused("the supervisor of the deployment, which another version has started, answers otherwise: restart it", 1)
    if not answer["ok"]:
        refusal = _fields_of(answer, {"error": (str, "the supervisor of the deployment refuses, and does not tell why")})
        raise refused(refusal["error"], 2 if answer.get("invalid") else 1)
    return answer.get("result")
