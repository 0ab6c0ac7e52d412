"""The console: static files of the package, which a browser may load without a token. Its contents need one."""

import asyncio
import gzip
import logging
from dataclasses import dataclass
from functools import cache
from mimetypes import guess_type
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.gateway.http.api import API
from headrace.gateway.http.callers import Callers
from headrace.gateway.http.guard import may_see, problem
from headrace.gateway.rules import ASSETS, CONSOLE

log = logging.getLogger(__name__)
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
NOT_BUILT = (
    "this installation has no console: it was built without Node.js. In a checkout, install Node.js 20.19 or newer, and run: "
    f"make console. {API}/openapi.json describes the API"
)
"""The answer to a browser in place of the page."""
_STATUS = f"{API}/status"
_HEADERS = {"content-security-policy": POLICY, "referrer-policy": "no-referrer", "x-frame-options": "DENY"}


@dataclass(frozen=True, slots=True)
class _File:
    """A file of the console, in memory: an answer that reads it in pieces waits for a thread at each of them."""

    media_type: str
    plain: bytes
    zipped: bytes


@cache
def _read(path: Path) -> _File:
    plain = path.read_bytes()
    return _File(guess_type(path.name)[0] or "application/octet-stream", plain, gzip.compress(plain, mtime=0))


async def _answer(request: Request, path: Path, caching: str) -> Response:
    file = await asyncio.to_thread(_read, path)
    headers = {**_HEADERS, "cache-control": caching, "vary": "accept-encoding"}
    if "gzip" in {coding.strip() for coding in request.headers.get("accept-encoding", "").split(",")}:
        return Response(file.zipped, headers={**headers, "content-encoding": "gzip"}, media_type=file.media_type)
    return Response(file.plain, headers=headers, media_type=file.media_type)


def console_routes(callers: Callers) -> list[Route]:
    """Returns the routes of the console.

    Args:
        callers: Who may see the status, which the page shows first.
    """
    files = FILES
    if not (files / "index.html").is_file():
        log.warning("gateway has no console", extra={"detail": NOT_BUILT})
    assets = {path.name: path for path in (files / "assets").glob("*") if path.is_file()}

    async def page(request: Request) -> Response:
        if not (files / "index.html").is_file():
            return problem(404, NOT_BUILT)
        answer = await _answer(request, files / "index.html", "no-cache")
        # The browser requests it while it loads the script. It would be refused to whoever is not signed in.
        if may_see(request, _STATUS, callers):
            answer.headers["link"] = f"<{_STATUS}>; rel=preload; as=fetch; crossorigin=anonymous"
        return answer

    async def asset(request: Request) -> Response:
        path = assets.get(request.path_params["name"])
        if path is None:
            return problem(404, "there is no such file; reload the page")
        # The name has a hash of the content.
        return await _answer(request, path, "public, max-age=31536000, immutable")

    return [Route(CONSOLE, page), Route(ASSETS, asset)]
