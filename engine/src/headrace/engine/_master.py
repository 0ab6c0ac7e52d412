"""What the URL of Spark's master says of where the work is done."""


def is_one_jvm(master: str) -> bool:
    """Whether driver and executors are one JVM; those of a `local-cluster` are not."""
    return master == "local" or master.startswith("local[")


def is_this_machine(master: str) -> bool:
    """Whether all executors run on the driver's machine, as its children: `local`, `local[...]`, `local-cluster[...]`."""
    return is_one_jvm(master) or master.startswith("local-cluster[")
