"""Where the processes of a world run, where not all of them are on this machine with a Spark of their own."""

from dataclasses import dataclass

from headrace.processes import free_address


@dataclass(frozen=True)
class Site:
    """Where the processes of a world run.

    Attributes:
        submit: The words that submit the driver's program to a cluster, `spark-submit --master URL`; none for a Python process
            that makes Spark itself.
        host: The address that the gateway listens at.
        enter: The words before the command lines of gateway, sources and sinks that bring them to the host of this address,
            such as `ip netns exec NAME`; none for this machine.
    """

    submit: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    enter: tuple[str, ...] = ()

    def free_address(self) -> str:
        """An address for a gateway that is started again and again."""
        # What is free here is most likely free on another host, too.
        port = free_address().rpartition(":")[2]
        return f"{self.host}:{port}"
