"""Constants, types and rules that all parts of Headrace share besides the protocol's messages. Standard library only."""
