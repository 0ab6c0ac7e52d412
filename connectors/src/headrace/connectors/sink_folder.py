"""What file sinks keep beside their visible files: `.headrace/<sink>/`, which whoever discards these files must respect."""

HIDDEN = ".headrace"
"""The folder with a folder for each sink."""
LOCK = "lock"
"""The file in it that a sink has locked while it runs."""
COMMIT = "commit.json"
"""The file in it that exists while a commit is not finished."""
