"""How the defaults of options pass from a Spark Connect server to the process in which Spark looks for data sources."""

import base64
import os
import pickle
from pathlib import Path

from headrace.engine.wire.gateway_options import Defaults
from headrace.machine.replacement import replace_text

_FILE = "HEADRACE_CONNECT_DEFAULTS"
_SOURCES = Path(__file__).with_name("connect_source")


def announce_defaults(folder: Path) -> Path:
    """Names the file in the environment of the JVM that this process starts next, beside the folder of the data source.

    Args:
        folder: A folder that only this user can read, since defaults contain a token.

    Returns:
        The file, which `write_defaults` writes.
    """
    file = folder / "defaults"
    os.environ[_FILE] = str(file)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_SOURCES), os.environ.get("PYTHONPATH"))))
    return file


def write_defaults(file: Path, defaults: Defaults) -> None:
    """Writes the file as a whole."""
    replace_text(file, base64.b64encode(pickle.dumps(defaults)).decode(), mode=0o600)


def read_defaults() -> Defaults | None:
    """Reads the file that the environment names; None in processes of no Spark Connect server of Headrace."""
    file = os.environ.get(_FILE)
    if file is None:
        return None
    defaults = pickle.loads(base64.b64decode(Path(file).read_text()))
    assert isinstance(defaults, Defaults)
    return defaults
