"""Takes the modules and programs of an application to the workers.

Others use `ship`, `ship_programs`, `shipped_programs`.
"""
