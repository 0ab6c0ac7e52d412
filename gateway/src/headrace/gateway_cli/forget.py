"""`headrace forget`."""

import click

from headrace.terminal import (
    CALL_TIMEOUT_S,
    Connection,
    ProgramCommand,
    connection_options,
    json_option,
    print_result,
    print_text,
)


@click.command(cls=ProgramCommand)
@click.argument("name")
@click.option("--force", is_flag=True, help="Forget a pipeline even while a query is attached.")
@json_option()
@connection_options
def forget(name: str, force: bool, as_json: bool, connection: Connection) -> None:
    """Forget the pipeline or the stream NAME.

    A pipeline that is forgotten no longer holds back acknowledgements of its streams. A stream, such as orders/0, is treated as
    if its source had ended it permanently.

    Sources must keep what a stopped pipeline has not read. Forget a pipeline only if it will never run again: if it does, its
    messages may be gone. If its machine has failed, its lease expires after a while; --force does not wait for that.

    \b
    Examples:
      headrace forget market-spread
      headrace forget market-spread --force
      headrace forget orders/0
    """
    from headrace.protocol.v1.admin_pb2 import ForgetPipelineRequest, ForgetStreamRequest
    from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

    is_stream, forgotten = "/" in name, True
    with connection.failures(f"{name} is not forgotten"), connection.channel() as channel:
        stub = AdminServiceStub(channel)
        if is_stream:
            wanted = ForgetStreamRequest(stream=name)
            forgotten = stub.ForgetStream(wanted, timeout=CALL_TIMEOUT_S, metadata=connection.metadata).forgotten
        else:
            request = ForgetPipelineRequest(pipeline=name, force=force)
            stub.ForgetPipeline(request, timeout=CALL_TIMEOUT_S, metadata=connection.metadata)
    summary = f"{name} is forgotten" if forgotten else f"{name} has ended; it is forgotten once its pipelines have read the rest"
    if as_json:
        print_result(summary, {"stream": name, "forgotten": forgotten} if is_stream else {"pipeline": name})
    else:
        print_text(summary)
