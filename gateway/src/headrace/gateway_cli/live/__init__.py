"""The live display of `headrace top`: what it shows, apart from the terminal that it is shown on."""
