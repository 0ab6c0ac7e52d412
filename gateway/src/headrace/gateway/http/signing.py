"""Signing in and out in a browser, and who is signed in."""

from typing import NotRequired

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from typing_extensions import TypedDict

from headrace.gateway.config import Http
from headrace.gateway.http.callers import COOKIE, SIGNED_IN_S, Callers
from headrace.gateway.http.guard import peer_of, problem, read_body, refuse_cross_site
from headrace.gateway.identity import Unauthenticated
from headrace.gateway.refusals import log_refusal
from headrace.gateway.rules import ME, SIGN_IN, SIGN_OUT, Right

MAX_TOKEN_CHARACTERS = 1_000


class SignInRequest(BaseModel):
    """The token to sign in with."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    token: str = Field(min_length=1, max_length=MAX_TOKEN_CHARACTERS)


class LinksDocument(TypedDict):
    """The pages that the configuration names; null if it does not."""

    prometheus: str | None
    spark: str | None


class MeDocument(TypedDict):
    """Who calls: the name of the token, null if nobody is signed in, and which of the rights for people it has.

    The links are there for callers that may read the status.
    """

    name: str | None
    rights: list[str]
    tokens_needed: bool
    links: NotRequired[LinksDocument]


def signing_routes(callers: Callers, config: Http) -> list[Route]:
    """Returns the routes by which browsers sign in and out.

    Args:
        callers: Knows the tokens.
        config: Names the pages to which the console leads.
    """

    async def sign_in(request: Request) -> Response:
        if refusal := refuse_cross_site(request, SIGN_IN):
            return refusal
        wanted = await read_body(request, SignInRequest)
        if isinstance(wanted, Response):
            return wanted
        response = Response(status_code=204)
        if callers.need_tokens:
            try:
                key = callers.sign_in(wanted.token)
            except Unauthenticated as error:
                log_refusal(SIGN_IN, peer_of(request), str(error))
                return problem(401, str(error))
            secure = request.url.scheme == "https"
            response.set_cookie(COOKIE, key, max_age=SIGNED_IN_S, httponly=True, samesite="strict", secure=secure)
        return response

    async def sign_out(request: Request) -> Response:
        if refusal := refuse_cross_site(request, SIGN_OUT, needs_proof=True):
            return refusal
        callers.sign_out(request)
        response = Response(status_code=204)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    async def me(request: Request) -> Response:
        document: MeDocument = {"name": None, "rights": [], "tokens_needed": callers.need_tokens}
        try:
            identity = callers.authenticate(request)
        except Unauthenticated:
            return JSONResponse(document)
        document["name"] = identity.name
        document["rights"] = [right.value for right in (Right.ADMINISTER, Right.CONTROL, Right.PEEK) if identity.has(right)]
        if identity.has(Right.ADMINISTER):
            document["links"] = {"prometheus": config.prometheus_url or None, "spark": config.spark_url or None}
        return JSONResponse(document)

    return [
        Route(SIGN_IN, sign_in, methods=["POST"]),
        Route(SIGN_OUT, sign_out, methods=["POST"]),
        Route(ME, me),
    ]
