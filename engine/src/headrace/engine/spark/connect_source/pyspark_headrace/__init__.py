"""What Spark finds by this name in the Python path of a Spark Connect server: `format("headrace")` for each of its sessions."""

from headrace.engine.spark.connect_defaults import read_defaults
from headrace.engine.spark.format import HeadraceSource

# In any other process, Spark finds no data source here: nobody would monitor its queries.
if (_defaults := read_defaults()) is not None:
    # No module has an attribute of this name, so a session's processes get the class with its defaults, wherever they run.
    DefaultSource = type("RegisteredHeadraceSource", (HeadraceSource,), {"defaults": _defaults, "registered": True})
