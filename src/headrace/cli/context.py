"""`headrace context`: saves how to call a gateway under a name, which commands then use."""

import json
from pathlib import Path
from typing import Any

import click

from headrace.contract.settings import TLS, TLS_CA, TLS_CERT, TLS_KEY
from headrace.contract.token_files import descriptor_of
from headrace.terminal import (
    EXIT_INVALID,
    Failure,
    ProgramGroup,
    console,
    counted,
    json_option,
    opened_token_file,
    print_result,
    print_text,
)
from headrace.terminal.contexts import Context, changing_contexts, contexts_file, load_contexts

_File = click.Path(exists=True, dir_okay=False, path_type=Path, resolve_path=True)
_JSON = json_option()


@click.group(cls=ProgramGroup)
def context() -> None:
    """Name gateways. Commands that call a gateway use the context that is in use, or the one of --context or HEADRACE_CONTEXT.

    \b
    Examples:
      headrace context add prod --gateway gateway.example:7433 --token-file ~/.headrace/prod.token --tls-ca ca.pem
      headrace context use prod
      headrace status --context prod
    """


@context.command()
@click.argument("name")
@click.option("--gateway", metavar="HOST:PORT", required=True, help="The gateway.")
@click.option(
    "--token-file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A file that contains the token. It is read by each command.",
)
@click.option(TLS.option, is_flag=True, help=TLS.description)
@click.option(TLS_CA.option, type=_File, help=TLS_CA.description)
@click.option(TLS_CERT.option, type=_File, help=TLS_CERT.description)
@click.option(TLS_KEY.option, type=_File, help=TLS_KEY.description)
@click.option("--replace", "replaces", is_flag=True, help="Replace a context of this name.")
@_JSON
def add(name: str, replaces: bool, as_json: bool, **values: Any) -> None:
    """Add a context. The first one is in use from then on.

    \b
    Examples:
      headrace context add local --gateway 127.0.0.1:7433
      headrace context add prod --gateway gateway.example:7433 --token-file prod.token --tls-ca ca.pem
    """
    if not name or not name.isprintable() or name.startswith("-"):
        raise Failure(f"{name!r} is no name for a context: want printable characters", EXIT_INVALID)
    if (values["tls_cert"] is None) != (values["tls_key"] is None):
        raise Failure("--tls-cert and --tls-key go together: a certificate and its key", EXIT_INVALID)
    if values["token_file"] is not None:
        if descriptor_of(values["token_file"]) is not None:
            raise Failure(f"--token-file: {values['token_file']} ends with this command; a context needs a file", EXIT_INVALID)
        opened = opened_token_file(values["token_file"])
        values["token_file"] = None if opened is None else opened.path
    with changing_contexts() as changing:
        if name in changing.contexts.by_name and not replaces:
            raise Failure(f"there is a context {name} already; to replace it: --replace", EXIT_INVALID)
        changing.put(name, Context(**values))
        used = changing.contexts.used
    _report(
        f"context {name} is added{', and in use' if used == name else ''}",
        {"context": name, "used": used},
        as_json,
    )


@context.command()
@click.argument("name", required=False)
@click.option("--none", is_flag=True, help="Use no context.")
@_JSON
def use(name: str | None, none: bool, as_json: bool) -> None:
    """Use a context from now on.

    \b
    Examples:
      headrace context use prod
      headrace context use --none
    """
    if (name is None) != none:
        raise Failure("name a context, or pass --none", EXIT_INVALID)
    with changing_contexts() as changing:
        changing.use(name)
    _report("no context is in use" if name is None else f"context {name} is in use", {"used": name}, as_json)


@context.command()
@click.argument("name")
@_JSON
def remove(name: str, as_json: bool) -> None:
    """Remove a context. Its files stay.

    \b
    Example:
      headrace context remove staging
    """
    with changing_contexts() as changing:
        changing.remove(name)
        used = changing.contexts.used
    _report(f"context {name} is removed", {"context": name, "used": used}, as_json)


@context.command("list")
@json_option()
def list_(as_json: bool) -> None:
    """List the contexts; a star marks the one in use.

    \b
    Examples:
      headrace context list
      headrace context list --json | jq --raw-output '.result.contexts[].gateway'
    """
    from headrace.terminal.tables import plain_table

    found = load_contexts()
    rows = [
        {"context": name, "used": name == found.used, **json.loads(json.dumps(vars(one), default=str))}
        for name, one in sorted(found.by_name.items())
    ]
    if as_json:
        print_result(counted(len(rows), "context"), {"file": str(contexts_file()), "contexts": rows})
        return
    if not rows:
        print_text("there are no contexts; to add one: headrace context add NAME --gateway HOST:PORT")
        return
    table = plain_table("", "context", "gateway", "token", "tls")
    for row in rows:
        tls = "yes" if row["tls"] or row["tls_ca"] or row["tls_cert"] else "no"
        table.add_row("*" if row["used"] else "", row["context"], row["gateway"], "file" if row["token_file"] else "none", tls)
    console().print(table)


def _report(summary: str, result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_result(summary, result)
    else:
        print_text(summary)
