"""The TLS files of connectors, which may be replaced while they run."""

import logging
from collections.abc import Sequence
from pathlib import Path

from headrace.contract.certificates import ClientFiles, ReloadingContext, ServerFiles

log = logging.getLogger(__name__)


def client_context(ca: Path | None, cert: Path | None = None, key: Path | None = None) -> ReloadingContext:
    """Returns the context of a client: each new connection uses what the files contain then.

    Args:
        ca: Certificates to trust; None for the system's authorities.
        cert: The client certificate chain, if any.
        key: Its key.

    Raises:
        OSError: A file cannot be used.
        ValueError: The key is encrypted.
    """
    return ReloadingContext(ClientFiles(ca, cert, key), _report_change)


def server_context(files: ServerFiles) -> ReloadingContext:
    """Returns the context of a server: each new connection uses what the files contain then.

    Raises:
        OSError: A file cannot be used.
        ValueError: The key is encrypted.
    """
    return ReloadingContext(files, _report_change)


def _report_change(problems: Sequence[str]) -> None:
    if problems:
        log.error("new TLS files cannot be used; the old ones stay in force: %s", "; ".join(problems))
    else:
        log.info("TLS files replaced")
