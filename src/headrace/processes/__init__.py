"""Starts, kills and restarts processes, for deployments, the demo, the benchmarks and the chaos tests."""

from headrace.processes.group import end_with_supervisor, headrace, process_group, spark_environ, under_supervisor
from headrace.processes.java import JavaMissing, find_java, require_java
from headrace.processes.memory_kills import MemoryKills, RecentKills, memory_kills
from headrace.processes.of_session import Orphans, executors, memory_of_sessions
from headrace.processes.owned import OwnedProcess, begun_in, hangups_held, ignore_hangups, kill_session, lives
from headrace.processes.scratch import Scratch, own_temporary_folder, scratch_folder

__all__ = [
    "JavaMissing",
    "MemoryKills",
    "Orphans",
    "OwnedProcess",
    "RecentKills",
    "Scratch",
    "begun_in",
    "end_with_supervisor",
    "executors",
    "find_java",
    "hangups_held",
    "headrace",
    "ignore_hangups",
    "kill_session",
    "lives",
    "memory_kills",
    "memory_of_sessions",
    "own_temporary_folder",
    "process_group",
    "require_java",
    "scratch_folder",
    "spark_environ",
    "under_supervisor",
]
