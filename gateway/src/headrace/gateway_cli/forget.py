"""`headrace forget`."""

import click

from headrace.terminal import CALL_TIMEOUT_S, EXIT_FAILED, Connection, ProgramCommand, connection_options, print_action


@click.command(cls=ProgramCommand)
@click.argument("pipeline")
@click.option("--force", is_flag=True, help="Forget it even while a query is attached.")
@click.option("--json", "as_json", is_flag=True, help="Print {command, ok, summary, result, error}.")
@connection_options
@click.pass_context
def forget(ctx: click.Context, pipeline: str, force: bool, as_json: bool, connection: Connection) -> None:
    """Forget PIPELINE, so that it no longer holds acknowledgements of its streams.

    Sources must keep what a stopped pipeline has not read. Forget a pipeline only if it will never run again: if it does, its
    messages may be gone. If its machine has failed, its lease expires after a while; --force does not wait for that.

    \b
    Examples:
      headrace forget market-spread
      headrace forget market-spread --force
    """
    import grpc

    from headrace.protocol.v1.admin_pb2 import ForgetPipelineRequest
    from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

    try:
        with connection.channel() as channel:
            request = ForgetPipelineRequest(pipeline=pipeline, force=force)
            AdminServiceStub(channel).ForgetPipeline(request, timeout=CALL_TIMEOUT_S, metadata=connection.metadata)
    except grpc.RpcError as error:
        failure = connection.failure(error)
        if not as_json:
            raise failure from None
        print_action("forget", f"{pipeline} is not forgotten", error=failure.message)
        ctx.exit(EXIT_FAILED)
    summary = f"{pipeline} is forgotten"
    if as_json:
        print_action("forget", summary, {"pipeline": pipeline})
    else:
        click.echo(summary)
