"""The command line: arguments in, one call, text out."""

from leadline.cli import spirals, tables  # the commands, which hang themselves on the app
from leadline.cli.app import app, main

__all__ = ["app", "main", "spirals", "tables"]
