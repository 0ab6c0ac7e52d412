"""What the URL of Spark's master says of where the work is done."""

import ipaddress

_STANDALONE = "spark://"


def is_one_jvm(master: str) -> bool:
    """Whether driver and executors are one JVM; those of a `local-cluster` are not."""
    return master == "local" or master.startswith("local[")


def is_this_machine(master: str) -> bool:
    """Whether all executors run on the driver's machine, as its children: `local`, `local[...]`, `local-cluster[...]`."""
    return is_one_jvm(master) or master.startswith("local-cluster[")


def shares_loopback(master: str) -> bool:
    """Whether 127.0.0.1 is the same machine for all executors as for the driver.

    So it is where a standalone master itself is reached there: no worker on another machine could find it.
    """
    if is_this_machine(master):
        return True
    hosts = master.removeprefix(_STANDALONE).split(",")
    return master.startswith(_STANDALONE) and all(is_loopback(host) for host in hosts)


def is_loopback(address: str) -> bool:
    """Whether each machine finds itself at an address, `host:port`. Names are not looked up, save `localhost`.

    What another machine would make of a name is not known here.
    """
    host = address.rpartition(":")[0].strip("[]").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return False
    # The address of no host, which servers listen at, is this machine for those who connect to it.
    return found.is_loopback or found.is_unspecified
