"""Processes that are started, killed and started again, for the demo, the benchmarks and the proof by killing everything."""

from headrace.processes._company import company, headrace
from headrace.processes._environ import spark_environ
from headrace.processes._executors import executors
from headrace.processes._owned import OwnedProcess, lives
from headrace.processes._ports import free_address
from headrace.processes._traces import first_cause

__all__ = ["OwnedProcess", "company", "executors", "first_cause", "free_address", "headrace", "lives", "spark_environ"]
