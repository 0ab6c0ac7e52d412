"""The end of calls, sessions among them, whose tokens are revoked or have other rights."""

from collections.abc import Iterable

from headrace.gateway.core.base.errors import TokenRevoked
from headrace.gateway.core.connections import OpenCalls, Refusals, Role
from headrace.gateway.core.pipelines import Pipeline
from headrace.gateway.identity import Identity, TokenRegistry


def end_revoked(registry: TokenRegistry, calls: OpenCalls, pipelines: Iterable[Pipeline], refusals: Refusals) -> int:
    """Ends the calls whose tokens are no longer valid or whose rights have changed; returns how many.

    The call that has requested this may still answer. A query stays attached until its lease ends, unless it calls with
    another token; health then names the refusal, since its calls no longer show which query they belong to.

    Args:
        registry: The tokens that are valid now.
        calls: The calls in progress.
        pipelines: The pipelines, whose queries may have no call in progress.
        refusals: Takes who is refused.
    """
    revoked = [call for call in calls if not call.is_own and not registry.holds(call.identity)]
    for call in revoked:
        call.end(_error(call.identity))
    for pipeline in pipelines:
        if pipeline.attached and pipeline.caller is not None and not registry.holds(pipeline.caller):
            peer = "" if pipeline.planner is None else pipeline.planner.peer
            refusals.note(Role.QUERY, f"pipeline {pipeline.name}", peer, _error(pipeline.caller), was_admitted=True)
    return len(revoked)


def _error(identity: Identity) -> TokenRevoked:
    return TokenRevoked(f"the token of {identity.name!r} was replaced, or has other rights now; connect with the new one")
