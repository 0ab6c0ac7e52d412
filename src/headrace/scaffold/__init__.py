"""New projects: sources, sinks and applications that build, pass their tests and run, made of templates.

The templates are in `templates/`, each folder an overlay of the one before: what all sources share, what all projects of a
language share, and what is special to both. To add a language, add its folders, and a row to `SCAFFOLDS`.
"""

from headrace.scaffold.languages import SCAFFOLDS, Scaffold
from headrace.scaffold.names import FolderNotEmpty, InvalidName, NotAnSdk, ScaffoldError
from headrace.scaffold.project import Created, new_app, new_connector

__all__ = [
    "SCAFFOLDS",
    "Created",
    "FolderNotEmpty",
    "InvalidName",
    "NotAnSdk",
    "Scaffold",
    "ScaffoldError",
    "new_app",
    "new_connector",
]
