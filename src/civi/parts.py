"""Declared roles of arrays: trained (as part of a group), constant, or rows of data.

A module declares the role of its fields where it defines them:

    class SemiImplicit(eqx.Module):
        noise: GaussianNoise
        mixing: MixingNetwork = trained("mixing")
        conditional: Conditional = trained("scale")

A declaration applies to every array inside the field, unless a nested field has its own declaration. An array without
any declaration is an error, so that nothing is trained, frozen or sharded by accident.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
from jax.tree_util import DictKey, GetAttrKey, SequenceKey

from civi.errors import CiviError

Tree = TypeVar("Tree")
ROLE = "civi.role"


class Role(NamedTuple):
    """The role of an array: `kind` is trained, constant or rows; `group` is the parameter group of a trained array."""

    kind: str
    group: str | None = None


def trained(group: str, **options: Any) -> Any:
    """A field whose floating-point arrays are trained, as part of this parameter group."""
    return eqx.field(metadata={ROLE: Role("trained", group)}, **options)


def constant(**options: Any) -> Any:
    """A field whose arrays are not trained, and are replicated on all devices."""
    return eqx.field(metadata={ROLE: Role("constant")}, **options)


def data_rows(**options: Any) -> Any:
    """A field whose arrays are rows of data: not trained, and possibly sharded over the devices by rows."""
    return eqx.field(metadata={ROLE: Role("rows")}, **options)


def split(tree: Tree) -> tuple[Tree, Tree]:
    """The trained arrays and everything else, as two trees with None in place of the other's leaves."""
    is_trained = [
        eqx.is_inexact_array(leaf) and role is not None and role.kind == "trained"
        for (_, leaf), role in zip(_leaves(tree), _flat_roles(tree), strict=True)
    ]
    return eqx.partition(tree, jax.tree.unflatten(jax.tree.structure(tree), is_trained))


def groups(params: Tree) -> Tree:
    """The tree with each trained array replaced by the name of its group."""
    names = [role.group if role else None for role in _flat_roles(params)]
    return jax.tree.unflatten(jax.tree.structure(params), names)


def is_rows(tree: Tree) -> Tree:
    """The tree with each leaf replaced by whether it is an array of data rows."""
    flags = [role is not None and role.kind == "rows" for role in _flat_roles(tree)]
    return jax.tree.unflatten(jax.tree.structure(tree), flags)


def _leaves(tree: Any) -> list[tuple[tuple[Any, ...], Any]]:
    return jax.tree_util.tree_leaves_with_path(tree)


def _flat_roles(tree: Any) -> Iterator[Role | None]:
    return (_role(tree, path, leaf) for path, leaf in _leaves(tree))


def _role(tree: Any, path: tuple[Any, ...], leaf: Any) -> Role | None:
    """The innermost declaration on the path to an array; None for leaves that are not arrays."""
    if not eqx.is_array_like(leaf) or not hasattr(leaf, "dtype"):
        return None
    role, node = None, tree
    for key in path:
        if isinstance(key, GetAttrKey):
            field = getattr(type(node), "__dataclass_fields__", {}).get(key.name)
            role = role if field is None else field.metadata.get(ROLE, role)
            node = getattr(node, key.name)
        elif isinstance(key, SequenceKey | DictKey):
            node = node[key.idx if isinstance(key, SequenceKey) else key.key]
        else:
            break
    if role is None:
        name = jax.tree_util.keystr(path)
        raise CiviError(
            f"the array {name} of {type(tree).__name__} has no declared role: declare its field with trained(group), "
            "constant() or data_rows() of civi.parts"
        )
    return role
