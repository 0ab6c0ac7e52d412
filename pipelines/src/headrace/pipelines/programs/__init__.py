"""Programs in any language that process the messages of a keyed step, each in a process of its own."""
