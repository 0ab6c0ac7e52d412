"""`python -m headrace.gateway_cli`."""

from headrace.gateway_cli import main

main()
