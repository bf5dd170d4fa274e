"""Groups of arrays as labelled xarray objects, in the schema that both ArviZ before 1 and ArviZ 1 read.

Draws have the axes chain and draw, which all functions of ArviZ expect by default. Draws of an approximation are
independent, so they are one chain.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import civi
from civi.files import atomically

if TYPE_CHECKING:
    from xarray import Dataset, DataTree

Groups = dict[str, dict[str, Any]]
SAMPLE_AXES = ("chain", "draw")
WITHOUT_DRAWS = ("observed_data",)


def datasets(groups: Groups, axes: Mapping[str, Sequence[str]]) -> dict[str, Dataset]:
    """One data set per group; every axis has the coordinates 0, 1, ...

    Args:
        groups: arrays by group and name, of shape (chain, draw, ...); those of WITHOUT_DRAWS have no axes of draws.
        axes: names of the other axes of a variable; by default NAME_dim_0, NAME_dim_1, ...
    """
    made_at = datetime.datetime.now(datetime.UTC).isoformat()
    attributes = {"created_at": made_at, "creation_library": "civi", "creation_library_version": civi.__version__}
    return {
        group: _dataset(items, () if group in WITHOUT_DRAWS else SAMPLE_AXES, axes, attributes)
        for group, items in groups.items()
    }


def _dataset(
    items: Mapping[str, Any], sample_axes: Sequence[str], axes: Mapping[str, Sequence[str]], attributes: dict[str, str]
) -> Dataset:
    from xarray import DataArray, Dataset  # noqa: PLC0415 start-up time

    labelled = {}
    for name, value in items.items():
        array = np.asarray(value)
        dims = [*sample_axes, *_own_axes(name, array.ndim - len(sample_axes), axes.get(name, ()))]
        coordinates = {dim: np.arange(size) for dim, size in zip(dims, array.shape, strict=True)}
        labelled[name] = DataArray(array, coordinates, dims)
    return Dataset(labelled, attrs=attributes)


def _own_axes(name: str, count: int, given: Sequence[str]) -> list[str]:
    """Names of `count` axes: the given ones as far as they go, unless they are names of the axes of draws."""
    names = [f"{name}_dim_{i}" for i in range(count)]
    for i, own in enumerate(given[:count]):
        names[i] = names[i] if own in SAMPLE_AXES else own
    return names


def tree_of(groups: Mapping[str, Dataset], attributes: Mapping[str, Any] | None = None) -> DataTree:
    """A data tree with one node per group; slashes in names, which a tree does not allow, become underscores.

    Args:
        groups: the data set of each group.
        attributes: attributes of the tree.
    """
    from xarray import DataTree  # noqa: PLC0415 start-up time

    tree = DataTree.from_dict({group: _without_slashes(data) for group, data in groups.items()})
    tree.attrs = dict(attributes or {})
    return tree


def _without_slashes(data: Dataset) -> Dataset:
    new: dict[str, str] = {}
    for name in map(str, [*data, *data.dims]):
        plain = name.replace("/", "_")
        while plain != name and (plain in data.variables or plain in new.values()):
            plain += "_"
        new[name] = plain
    return data.rename({name: plain for name, plain in new.items() if name != plain})


def write_tree(path: Path, tree: DataTree) -> None:
    """Write a data tree as netCDF with one compressed group per node, which both versions of ArviZ open."""
    encoding = {node.path: {str(name): {"zlib": True} for name in node.variables} for node in tree.leaves}
    atomically(path, lambda part: tree.to_netcdf(str(part), engine="h5netcdf", encoding=encoding))
