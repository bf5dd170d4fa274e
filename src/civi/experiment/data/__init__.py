"""Data sets: the registry of data files, and the regressions, images and texts made from them.

`registry` lists every file with its checksum, and `files` finds and downloads them. `regression` prepares the published
regressions, `images` and `text` the data of autoencoders. `table` and `arguments` read the user's own files. The
package imports nothing heavy.
"""

from civi.experiment.data.files import fetch, locate
from civi.experiment.data.registry import SETS, DataFile, FileSet, find_set

__all__ = ["SETS", "DataFile", "FileSet", "fetch", "find_set", "locate"]
