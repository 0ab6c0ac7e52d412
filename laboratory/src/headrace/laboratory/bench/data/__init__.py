"""`headrace bench data`: values with types, a block at a time, and lakes."""
