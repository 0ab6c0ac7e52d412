"""Finds the folder of an application's modules."""

import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_INSTALLED = {"site-packages", "dist-packages"}


def module_folder(module: Mapping[str, Any]) -> Path | None:
    """Returns the folder on Python's path from which a module was imported.

    Args:
        module: The module's global names.

    Returns:
        The folder; None if the module is installed, or not a file, as in a notebook.
    """
    file = module.get("__file__")
    if not isinstance(file, str):
        return None
    folder = Path(file).absolute().parent
    packages = tuple(filter(None, (module.get("__package__") or "").split(".")))
    if packages and folder.parts[-len(packages) :] == packages:
        folder = folder.parents[len(packages) - 1]
    installed = _INSTALLED & set(folder.parts) or folder.is_relative_to(sysconfig.get_path("stdlib"))
    return None if installed or not folder.is_dir() else folder
