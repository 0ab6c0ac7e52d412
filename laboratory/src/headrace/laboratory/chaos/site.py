"""The hosts and the Spark cluster of a world, if it does not run entirely on this machine."""

from dataclasses import dataclass

from headrace.machine.ports import free_address


@dataclass(frozen=True)
class Site:
    """Where the processes of a world run.

    Attributes:
        submit: The command that submits the driver's program to a cluster, `spark-submit --master URL`; empty for a Python
            process that starts Spark itself.
        host: The address that the gateway listens on.
        enter: The prefix of the command lines of gateway, sources and sinks that runs them on the host of this address,
            such as `ip netns exec NAME`; empty for this machine.
    """

    submit: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    enter: tuple[str, ...] = ()

    def free_address(self) -> str:
        """Returns a free address for a gateway that is restarted."""
        # A port that is free here is most likely free on another host too.
        port = free_address().rpartition(":")[2]
        return f"{self.host}:{port}"
