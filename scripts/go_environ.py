"""The environment in which Go builds what only this checkout uses."""

from pathlib import Path

_BUILD = Path(__file__).resolve().parents[1] / ".build" / "go"

GO_ENVIRON = {
    "GOCACHE": str(_BUILD / "cache"),
    # Without inlining and debug information, to compile takes half as long; with the same flags everywhere, once.
    "GOFLAGS": "'-gcflags=all=-l -dwarf=false' -ldflags=-w",
    "STATICCHECK_CACHE": str(_BUILD / "staticcheck"),
}
"""The caches are in the checkout, so that the tests and the generator of the stubs compile what they share once."""
