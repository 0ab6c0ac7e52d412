"""Takes the modules and programs of an application to the workers.

Others use `send_program_classes`, `ship`, `ship_programs`, `shipped_programs`.
"""
