"""Find, check and download data files.

A file is searched for in the folder CIVI_DATA_DIR, then among the files shipped with civi, then in the cache. Only
`fetch` downloads anything.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from civi.errors import DataError
from civi.experiment.data.registry import DataFile, find_set
from civi.folders import cache_folder

DATA_DIR = "CIVI_DATA_DIR"
SHIPPED = Path(__file__).parent / "shipped"


class Found(NamedTuple):
    """The path of a file, and where it was found: CIVI_DATA_DIR, shipped or cache."""

    path: Path
    place: str


def locate(set_name: str, file: str) -> Path:
    """The path of a file whose checksum is correct; an error if it is missing or damaged."""
    entry = find_set(set_name).file(file)
    found = find(entry)
    if found is None:
        raise DataError(_missing(entry))
    return checked(entry, found)


def locate_if_present(set_name: str, file: str) -> Path | None:
    """Like `locate`, but None if the file is missing; a damaged file is still an error."""
    entry = find_set(set_name).file(file)
    found = find(entry)
    return None if found is None else checked(entry, found)


def find(file: DataFile) -> Found | None:
    """The first location of the file; its checksum is not verified."""
    for place, folder in _places():
        if (folder / file.path).is_file():
            return Found(folder / file.path, place)
    return None


def _places() -> list[tuple[str, Path]]:
    named = os.environ.get(DATA_DIR)
    first = [(DATA_DIR, Path(named))] if named else []
    return [*first, ("shipped", SHIPPED), ("cache", cache_folder("data"))]


def checked(file: DataFile, found: Found) -> Path:
    """The path of the file; an error if its checksum differs from the registry's."""
    got = _sha256(found.path)
    if got != file.sha256:
        raise DataError(
            f"{found.path} is damaged or a different file: its sha256 is {got} and should be {file.sha256}; "
            + _how_to_repair(file, found.place)
        )
    return found.path


def _how_to_repair(file: DataFile, place: str) -> str:
    if place == "shipped":
        return "reinstall civi"
    if place == "cache" and file.urls:
        return f"fetch it again with `civi data fetch {file.set_name}`"
    return "replace it with the correct file" + (f", or unset {DATA_DIR}" if place == DATA_DIR else "")


def intact(file: DataFile, found: Found) -> bool:
    """Whether the checksum of the file equals the registry's."""
    return _sha256(found.path) == file.sha256


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def _missing(file: DataFile) -> str:
    named = os.environ.get(DATA_DIR)
    note = f" ({DATA_DIR} is {named}, which is not a folder)" if named and not Path(named).is_dir() else ""
    if not file.urls:
        return f"{file.path} was not found{note}: {_by_hand(file)}"
    return (
        f"{file.path} was not found{note}: fetch it with `civi data fetch {file.set_name}`, "
        f"or set {DATA_DIR} to a folder that contains it"
    )


def _by_hand(file: DataFile) -> str:
    origin = f"{file.origin}; " if file.origin else ""
    path = cache_folder("data") / file.path
    return f"{origin}put it at {path}, or set {DATA_DIR} to a folder that contains {file.path}"


def fetch(set_name: str, bar: Callable[[DataFile], Any] | None = None) -> list[Path]:
    """Download the files of a set that are missing, or damaged in the cache.

    Args:
        set_name: name of the set.
        bar: makes a progress bar for a file, with the members `total`, `update`, `reset` and `close` that Pooch uses.

    Returns:
        The paths of all files that are available.
    """
    paths = [_obtain(file, bar) for file in find_set(set_name).files]
    return [path for path in paths if path is not None]


def _obtain(file: DataFile, bar: Callable[[DataFile], Any] | None) -> Path | None:
    found = find(file)
    if found is not None and (found.place != "cache" or not file.urls or intact(file, found)):
        return checked(file, found)
    if file.urls:
        return _download(file, bar)
    if file.optional:
        return None
    raise DataError(f"{file.path} cannot be fetched: {_by_hand(file)}")


def _download(file: DataFile, bar: Callable[[DataFile], Any] | None) -> Path:
    """Try each URL in turn until one returns the correct file."""
    shown = bar(file) if bar else None
    reasons = []
    for url in file.urls:
        reason = _download_from(url, file, shown)
        if reason is None:
            return cache_folder("data") / file.path
        reasons.append(f"{url}: {reason}")
    raise DataError(
        f"cannot fetch {file.path} ({'; '.join(reasons)}): try again later, "
        f"or set {DATA_DIR} to a folder that contains {file.path}"
    )


def _download_from(url: str, file: DataFile, shown: Any) -> str | None:
    """Download to the cache; the reason if it failed, else None. Pooch keeps the file only if it is correct."""
    import pooch  # noqa: PLC0415 start-up time
    from requests.exceptions import RequestException  # noqa: PLC0415 start-up time

    pooch.get_logger().setLevel("WARNING")
    folder = cache_folder("data")
    if shown:
        shown.reset()
    plain = {"Accept-Encoding": "identity"}
    loader = pooch.HTTPDownloader(progressbar=shown or False, chunk_size=1 << 16, headers=plain)

    def load(url: str, output_file: str, owner: Any) -> None:
        loader(url, output_file, owner)
        got = _sha256(Path(output_file))
        if got != file.sha256:
            raise DataError(f"the file there has sha256 {got} and should have {file.sha256}")

    try:
        pooch.retrieve(url, f"sha256:{file.sha256}", fname=file.path, path=folder, downloader=load)
    except DataError as error:
        return str(error)
    except RequestException as error:
        return _reason(error)
    except OSError as error:
        raise DataError(f"cannot write to {folder}: {error.strerror or error}") from error
    return None


def _reason(error: Exception) -> str:
    """A short description of a failed request."""
    from requests.exceptions import ConnectionError, HTTPError, Timeout  # noqa: PLC0415 start-up time

    if isinstance(error, HTTPError) and error.response is not None:
        return f"the server answered {error.response.status_code}"
    if isinstance(error, Timeout):
        return "the server did not answer in time"
    if isinstance(error, ConnectionError):
        return "no connection"
    return f"the download failed ({type(error).__name__})"
