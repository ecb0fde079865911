"""The command that shows runs in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from genmix.cli import app, plain_errors


@app.command(epilog="Example: genmix dashboard runs --port 8080")
def dashboard(
    runs: Annotated[Path, typer.Argument(help="The folder that holds the runs.")] = Path("runs"),
    host: Annotated[
        str, typer.Option(help="The address to listen on; another than this demands a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port; 0 finds a free one.")
    ] = 8765,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="GENMIX_DASHBOARD_TOKEN",
            help="What a browser must give once to be let in.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show runs in a browser, live: weights, scores, samples, failures; compare, stop and resume them.

    Prints its address, and serves there until Ctrl-C. Runs go on when it ends.
    """
    with plain_errors():
        from genmix.dashboard.serve import serve

        serve(runs, host, port, token, announce=typer.echo)
