"""Builds the console's pages before the distribution: its wheel and its source archive contain them, and need no Node.js."""

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ConsoleHook(BuildHookInterface[Any]):
    """Builds the pages in a checkout; a source archive contains them, and not what they are made of."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Builds the pages, if they are not current. Without npm, the gateway has no console, and a warning tells why."""
        root = Path(self.root)
        script = root.parent / "scripts" / "build_console.py"
        # An editable installation serves the pages of the checkout, which set-up builds.
        if version == "editable" or not script.is_file() or not (root / "console" / "package.json").is_file():
            return
        made = runpy.run_path(str(script))
        try:
            made["build"]()
        except made["NpmMissing"] as error:
            self.app.display_warning(f"the gateway has no console: {error}")
