"""`civi report`: one HTML page of one or several folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from civi.cli.errors import stoppable
from civi.errors import SettingError


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of runs, fits and comparisons.")],
    out: Annotated[
        Path | None, typer.Option(help="The page; report.html in the folder, or here if there are several folders.")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Show the page in the browser.")] = False,
) -> None:
    """Write one HTML page: the results of a folder, or of several folders side by side."""
    if out is not None and out.is_dir():
        raise SettingError(f"--out {out} is a folder: name a file, such as {out / 'report.html'}")
    with stoppable():
        from civi.experiment.report.folders import page_of  # noqa: PLC0415 start-up time
        from civi.files import make_folder  # noqa: PLC0415 start-up time
        from civi.page import write_page  # noqa: PLC0415 start-up time

        page = page_of(folders)
        path = out or (folders[0] / "report.html" if len(folders) == 1 else Path("report.html"))
        make_folder(path.parent)
        write_page(path, page)
    typer.echo(f"the report is {path}")
    if open_:
        typer.launch(path.resolve().as_uri())
