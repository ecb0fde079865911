"""``python -m genmix`` is the command line."""

from genmix.cli import app

app(prog_name="genmix")
