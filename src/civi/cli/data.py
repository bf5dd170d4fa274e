"""`civi data`: list the data sets, download them, and show where they are."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from civi.cli.completion import data_sets
from civi.cli.errors import stoppable
from civi.experiment.data.files import fetch, find, intact, locate, locate_if_present
from civi.experiment.data.registry import SETS, DataFile, FileSet, find_set
from civi.folders import cache_folder

data_app = typer.Typer(help="Data sets: list them, download them, show where they are.", no_args_is_help=True)


@data_app.command("list")
def list_sets() -> None:
    """List the data sets with their size, licence and location."""
    from rich.table import Table  # noqa: PLC0415 start-up time

    from civi.progress import console  # noqa: PLC0415 start-up time

    table = Table()
    for column in ("name", "content", "size", "licence", "found in"):
        table.add_column(column, justify="right" if column == "size" else "left", no_wrap=column in ("name", "size"))
    for file_set in SETS.values():
        table.add_row(file_set.name, file_set.summary, _size(file_set.size), file_set.licence, where(file_set))
    console().print(table)


def where(file_set: FileSet) -> str:
    """Where the files of a set were found: cache, shipped or CIVI_DATA_DIR; `no` if they are missing."""
    found = [(file, find(file)) for file in file_set.files]
    here = [(file, place) for file, place in found if place is not None]
    if not all(intact(file, place) for file, place in here):
        return "damaged"
    places = ", ".join(dict.fromkeys(place.place for _, place in here))
    if all(place is not None or file.optional for file, place in found):
        return places
    return f"{len(here)} of {len(found)} files ({places})" if here else "no"


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"


@data_app.command("fetch")
def fetch_set(
    name: Annotated[
        str, typer.Argument(help="Name of the data set; `civi data list` lists them.", autocompletion=data_sets)
    ],
) -> None:
    """Download a data set to the cache and verify its checksums; existing files are kept."""
    file_set = find_set(name)
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn  # noqa: PLC0415 start-up time

    from civi.progress import console  # noqa: PLC0415 start-up time

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    progress = Progress(*columns, console=console(stderr=True))
    with stoppable("complete files are kept, to fetch the others repeat the command"):
        try:
            paths = fetch(name, (lambda file: FileBar(progress, file)) if progress.console.is_terminal else None)
        finally:
            if progress.live.is_started:
                progress.stop()
    for path in paths:
        typer.echo(path)
    for file in file_set.files:
        if file.optional and find(file) is None:
            typer.echo(f"{file.path} is optional and was not fetched: {file.origin}", err=True)


class FileBar:
    """A Rich progress bar with the interface that Pooch expects."""

    def __init__(self, progress: Any, file: DataFile) -> None:
        progress.start()
        self._progress = progress
        self._task = progress.add_task(file.path, total=file.size)
        self.total = file.size

    def update(self, size: int) -> None:
        self._progress.update(self._task, advance=size)

    def reset(self) -> None:
        self._progress.reset(self._task)

    def close(self) -> None:
        self._progress.stop_task(self._task)


@data_app.command("path")
def show_path(
    name: Annotated[
        str | None, typer.Argument(help="Name of the data set; by default, the cache folder.", autocompletion=data_sets)
    ] = None,
) -> None:
    """Print the folder of downloaded data, or the paths of the files of a data set."""
    if name is None:
        typer.echo(cache_folder("data"))
        return
    for file in find_set(name).files:
        found = locate_if_present(name, file.name) if file.optional else locate(name, file.name)
        if found is not None:
            typer.echo(found)
