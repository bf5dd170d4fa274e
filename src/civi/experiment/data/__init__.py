"""Data: which files exist, where they are found, and the regressions, images and texts made from them.

`registry` names every file with its checksum, `files` finds and fetches them, `regression` prepares the published
comparisons, `images` and `text` what autoencoders learn from, and `table` reads a CSV file of the user's own. Nothing
heavy is imported with this package.
"""

from civi.experiment.data.files import fetch, locate
from civi.experiment.data.registry import SETS, DataFile, FileSet, find_set

__all__ = ["SETS", "DataFile", "FileSet", "fetch", "find_set", "locate"]
