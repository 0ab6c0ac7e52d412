"""Checks whether the supervisor of a deployment can call its gateway, with the options that `headrace doctor` was given."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.contract.token_files import TokenFileError
from headrace.doctor.certificates import refusal_of
from headrace.doctor.deployment import DeploymentSite, of_deployments
from headrace.doctor.finding import Finding, Site, failed, ok, skipped, warning

if TYPE_CHECKING:
    from headrace.terminal import Connection

_UNKNOWN = "so it would not know which processes are connected, and nobody could restart them from elsewhere"


def check_supervisor(site: Site) -> Finding:
    """Checks whether the gateways of all deployments that were named would take the calls of their supervisors."""
    if site.supervisor is None:
        return skipped("the options are for the gateway that was named", "to check the supervisor: leave out --gateway")
    return of_deployments(_check(site.supervisor))(site)


def _check(options: "Connection") -> Callable[[DeploymentSite], Finding]:
    def check(site: DeploymentSite) -> Finding:
        from headrace.deploy import may_supervise

        wrong = refusal_of(site, options)
        if wrong is not None and options.encrypted:
            return failed(f"the supervisor: {wrong}", "--tls-ca is the authority of gateways, as for headrace run")
        if wrong is not None:
            text = f"the supervisor calls the gateway without TLS, {_UNKNOWN}"
            return warning(text, "start it with --tls-ca FILE, and pass the same option to doctor")
        has_token = options.token is not None or options.token_file is not None
        caller = options if has_token else replace(options, token=site.deployment.variables.get("HEADRACE_TOKEN"))
        try:
            secret = caller.secret
        except TokenFileError as error:
            return failed(f"the supervisor: {error}", "correct --token-file", error.exit_code)
        name = site.deployment.path.name
        if not may_supervise(site.deployment, secret):
            what = "has no token" if secret is None else f"has a token that does not allow supervise for {name}"
            fix = f'give it one with supervise = ["{name}"]: HEADRACE_TOKEN of env_file, or --token-file, also of doctor'
            return warning(f"the supervisor {what}, {_UNKNOWN}", fix)
        return ok("the supervisor can call the gateway")

    return check
