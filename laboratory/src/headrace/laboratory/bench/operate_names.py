"""The parts and the faults of `headrace bench operate`, by name. Imports nothing: `--help` lists them."""

PARTS = (
    "metrics_overhead",
    "scrape",
    "traces_overhead",
    "console_update",
    "readyz_names_cause",
    "false_alarms",
    "console_overhead",
    "capacity",
    "console_page",
    "console_pages",
    "console_history",
)
NAMED_PARTS = ("capacity", "console_page", "console_pages", "console_history")
"""The parts that only run if --only names them; the last three need a browser."""
FAULTS_PART = "readyz_names_cause"
"""The part that injects the faults. Without --only, it only runs with --quick, which takes one fault: all take minutes."""
FAULTS = {
    "configuration_invalid": "the gateway's configuration file is no longer valid",
    "key_invalid": "the gateway's TLS key is no key",
    "certificate_expires": "the gateway's certificate expires in ten days",
    "nothing_connected": "the only connector calls another address",
    "no_source": "a query reads a source that nobody has started",
    "paused_pipeline": "the pipeline is paused",
    "network_cut": "a connector sends and reads nothing, and stays connected",
    "sink_hanging": "a sink does not answer",
    "disk_full_at_the_sink": "a sink cannot write",
    "descriptors_at_the_sink": "a sink cannot open a file",
    "descriptors_at_the_gateway": "the gateway has few descriptors left",
    "function_raises": "a function raises in each micro-batch",
    "clock_set": "the clock of the gateway's machine is set forward",
    "gateway_restarted": "the gateway drains, and another one takes its place",
    "slow_commit_log": "the disk of the commit log does not answer",
    "checkpoint_disk_full": "the disk of the commit log is full",
    "receiver_refuses": "the receiver of a sink refuses connections",
    "receiver_rejects": "the receiver of a sink answers 401, which ends the query",
    "broker_stopped": "the broker of a source is stopped",
    "wrong_password": "a connector has a wrong password",
    "expired_position": "the broker no longer has what comes next",
    "driver_frozen": "a driver stands still; its planner does not",
    "driver_killed": "a driver is killed",
    "endless_function": "a function of an application does not return",
    "sink_ends_application": "a sink's disk is full, which ends an application",
    "second_driver": "two drivers use one checkpoint",
    "frozen_without_sink": "a driver whose query has no sink stands still; its planner does not",
    "executor_lost": "an executor of a cluster is killed",
    "jvm_ends": "the JVM of a deployment's program does not start",
    "trace_of_a_program": "a deployment's program ends with a trace of the JVM",
    "descriptors_at_a_driver": "a deployment's application has too few descriptors for its JVM",
    "descriptors_at_the_supervisor": "a deployment's supervisor has no descriptors left to start a connector again",
    "logs_full": "the disk of a deployment's logs is full",
}
"""What each fault is, in the order in which they are injected."""


def usual(quick: bool) -> tuple[str, ...]:
    """Returns the parts that run without --only."""
    return tuple(part for part in PARTS if part not in NAMED_PARTS and (quick or part != FAULTS_PART))
