"""What all parts of Headrace agree on beside the protocol's messages. Needs nothing but the standard library."""
