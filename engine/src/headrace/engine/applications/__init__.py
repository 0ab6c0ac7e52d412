"""Applications on Spark: blocks instead of rows in the shuffle, and states that workers cache and the checkpoint keeps in files.

A room imports only rooms above it in the architecture's table. No room imports its modules for others: Spark starts a process
for each step, and each imports what it needs.
"""
