"""`headrace lake`: maintains the tables that applications write."""

import click

from headrace.terminal import EXIT_INVALID, Failure, ProgramGroup, counted, json_option, print_line, print_result

_MEBIBYTE = 1 << 20


@click.group(cls=ProgramGroup)
def lake() -> None:
    """Maintain the tables that applications write, even while they write.

    \b
    Example:
      headrace lake compact /tables/orders
    """


@lake.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option(
    "--file-mib", type=click.IntRange(1, 1 << 20), default=256, show_default=True, metavar="N", help="Join files up to this size."
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of deltalake or of pyiceberg's catalog, such as aws_endpoint_url=... or uri=..., beside the environment. "
    "Repeatable.",
)
@json_option()
def compact(paths: tuple[str, ...], file_mib: int, options: tuple[str, ...], as_json: bool) -> None:
    """Join the small files of Delta and Iceberg tables, each table in one commit.

    Applications may write meanwhile. The files that were joined stay until somebody vacuums the table, or expires its snapshots.
    If one table cannot be compacted, the others still are.

    \b
    Examples:
      headrace lake compact /tables/orders /tables/counts
      headrace lake compact s3://bucket/orders --file-mib 512
      headrace lake compact iceberg:prod.sales.orders

    Exit codes: 0 compacted, 1 a PATH is no table of Delta or Iceberg or cannot be compacted, 2 an option is invalid.
    """
    from headrace.engine import LakeError, compact_lake

    pairs = [option.partition("=") for option in options]
    if wrong := next((name for name, equals, _ in pairs if not name or not equals), None):
        raise Failure(f"--option {wrong}: write NAME=VALUE", EXIT_INVALID)
    given = {name: value for name, _, value in pairs}
    tables, failures = [], list[str]()
    for path in paths:
        try:
            done = compact_lake(path, file_bytes=file_mib * _MEBIBYTE, options=given)
        except LakeError as error:
            failures.append(str(error))
            continue
        except OSError as error:
            failures.append(f"lake {path}: it cannot be compacted: {error}")
            continue
        tables.append({"path": path, "read": done.read, "written": done.written})
        if not as_json:
            print_line(
                f"{path}: "
                + (f"{counted(done.read, 'file')}, {done.written:,} now" if done.read else "has no small files to join")
            )
    summary = f"{counted(len(tables), 'table')} compacted"
    if failures:
        raise Failure("\n".join(failures), summary=f"{summary}, {len(failures):,} failed", result={"tables": tables})
    if as_json:
        print_result(summary, {"tables": tables})
