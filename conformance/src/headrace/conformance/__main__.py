"""`python -m headrace.conformance`."""

from headrace.conformance import main

main()
