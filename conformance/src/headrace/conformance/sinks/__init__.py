"""The gateway's side of sinks, and the checks that judge them."""
