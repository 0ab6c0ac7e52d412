"""The console: static files of the package, which a browser may load without a token. What it shows needs one."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from headrace.gateway.http.guard import problem
from headrace.gateway.rules import ASSETS, CONSOLE

FILES = Path(__file__).parent / "console"
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""What the page may load: nothing but this server's own files, and no script or style within the page."""
_HEADERS = {"content-security-policy": POLICY, "referrer-policy": "no-referrer", "x-frame-options": "DENY"}


def console_routes() -> list[Route]:
    """Returns the routes of the console."""
    files = FILES
    assets = {path.name: path for path in (files / "assets").glob("*") if path.is_file()}

    async def page(request: Request) -> Response:
        if not (files / "index.html").is_file():
            return problem(404, "this installation has no console; /api/v1/openapi.json describes the API")
        return FileResponse(files / "index.html", headers={**_HEADERS, "cache-control": "no-cache"})

    async def asset(request: Request) -> Response:
        path = assets.get(request.path_params["name"])
        if path is None:
            return problem(404, "there is no such file; reload the page")
        # The name has a hash of the content.
        return FileResponse(path, headers={**_HEADERS, "cache-control": "public, max-age=31536000, immutable"})

    return [Route(CONSOLE, page), Route(ASSETS, asset)]
