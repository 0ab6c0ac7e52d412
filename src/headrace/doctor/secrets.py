"""Checks of a deployment's tokens and of its files with secrets."""

import os
from typing import TYPE_CHECKING

from headrace.contract.names import covers
from headrace.contract.token_files import TokenFileError, descriptor_of, exposure
from headrace.doctor.deployment import DeploymentProcess, DeploymentSite
from headrace.doctor.finding import Finding, failed, ok, warning
from headrace.terminal import counted

if TYPE_CHECKING:
    from headrace.gateway import Token


def check_tokens(site: DeploymentSite) -> Finding:
    """Checks whether the gateway knows the token of each process, and whether it allows what the process does."""
    if not site.config.tokens:
        return ok("the gateway needs no tokens")
    wrong = [wrong for process in site.processes if (wrong := _wrong_token(process, site.config.tokens)) is not None]
    if wrong:
        return failed("; ".join(wrong), "set token in the table gateway of the process, and its rights in the gateway's tokens")
    return ok(f"the tokens allow the work of {counted(len(site.processes), 'process')}")


def check_secrets(site: DeploymentSite) -> Finding:
    """Checks whether files with tokens and variables can be read, and not by others."""
    files = [file for process in site.processes if (file := process.token_file) is not None and descriptor_of(file) is None]
    if site.deployment.env_file is not None:
        files.append(site.deployment.env_file)
    if not files:
        return ok("there are no files with secrets")
    wrong = [f"{file}: permission denied" for file in files if file.exists() and not os.access(file, os.R_OK)]
    if wrong:
        return failed("; ".join(wrong), "change the owner, or run doctor as the deployment's user")
    if exposed := [why for file in dict.fromkeys(files) if (why := exposure(file)) is not None]:
        return warning("; ".join(exposed), "allow only the deployment's user to read them")
    return ok(f"{', '.join(map(str, dict.fromkeys(files)))} can be read by their owners only")


def _wrong_token(process: DeploymentProcess, tokens: "tuple[Token, ...]") -> str | None:
    from headrace.gateway import token_digest

    if process.address is not None:
        return None  # Another gateway knows it.
    try:
        secret = process.secret()
    except TokenFileError as error:
        return f"{process.name}: {error}"
    if secret is None:
        return f"{process.name} has no token"
    digest = token_digest(secret)
    found = next((token for token in tokens if digest in token.sha256), None)
    if found is None:
        return f"the gateway does not know the token of {process.name}"
    allowed: tuple[str, ...] = getattr(found, process.right)
    # The names of a source's streams are known to its system only; a pattern that its name can begin with may allow them.
    targets = {"sources": process.target, "sinks": process.target}.get(process.right, "")
    if not allowed or (targets and not any(covers(pattern.partition("/")[0], targets) for pattern in allowed)):
        return f"token {found.name} of {process.name} lacks {process.right}{f' for {targets}' if targets else ''}"
    return None
