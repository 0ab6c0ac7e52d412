"""The gateway's HTTP server: health, metrics and the API, for probes, people and scripts."""

from headrace.gateway.http.app import new_app
from headrace.gateway.http.server import http_server

__all__ = ["http_server", "new_app"]
