"""Where driver and executors run, according to the URL of Spark's master."""

import ipaddress

_STANDALONE = "spark://"


def is_one_jvm(master: str) -> bool:
    """Whether driver and executors share one JVM; those of a `local-cluster` do not."""
    return master == "local" or master.startswith("local[")


def is_this_machine(master: str) -> bool:
    """Whether all executors run on the driver's machine, as its children: `local`, `local[...]`, `local-cluster[...]`."""
    return is_one_jvm(master) or master.startswith("local-cluster[")


def shares_loopback(master: str) -> bool:
    """Whether 127.0.0.1 is the same machine for all executors as for the driver.

    This is also true if a standalone master is reached at a loopback address: workers on other machines could not connect to it.
    """
    if is_this_machine(master):
        return True
    hosts = master.removeprefix(_STANDALONE).split(",")
    return master.startswith(_STANDALONE) and all(is_loopback(host) for host in hosts)


def is_loopback(address: str) -> bool:
    """Whether an address, `host:port`, is a loopback or unspecified address.

    Names other than `localhost` are not resolved, because other machines may resolve them differently.
    """
    host = address.rpartition(":")[0].strip("[]").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return False
    # A client that connects to the unspecified address reaches its own machine.
    return found.is_loopback or found.is_unspecified
