"""`python -m headrace.connectors_cli`."""

from headrace.connectors_cli import main

main()
