"""Settings that may differ between the parameter groups of a problem, such as mixing and decoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import optax

from civi.errors import SettingError, require


@dataclass(frozen=True)
class PerGroup(Mapping[str, float]):
    """A number per parameter group, such as PerGroup.of(mixing=1e-5, decoder=5e-4). Hashable, unlike a dict."""

    items_: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, **values: float) -> PerGroup:
        """From keyword arguments, in their order."""
        require(len(values) > 0, "a setting per group needs at least one group, for example mixing:0.1,decoder:0")
        return cls(tuple(values.items()))

    def __getitem__(self, group: str) -> float:
        return dict(self.items_)[group]

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self.items_))

    def __len__(self) -> int:
        return len(self.items_)


ByGroup = float | PerGroup


def value_for(setting: ByGroup, group: str) -> float:
    """The value of a setting for this group; a plain number applies to every group."""
    if not isinstance(setting, PerGroup):
        return setting
    if group not in setting:
        raise SettingError(f"no value is given for the parameter group '{group}', only for {', '.join(setting)}")
    return setting[group]


def values_of(setting: ByGroup) -> list[float]:
    """All values of a setting: one per group, or a single one."""
    return list(setting.values()) if isinstance(setting, PerGroup) else [setting]


def by_group(
    make: Callable[[str], optax.GradientTransformation], labels: Any, *settings: ByGroup
) -> optax.GradientTransformation:
    """A transformation that treats each parameter group separately; a single one if no setting differs between groups.

    Args:
        make: makes the transformation of a group.
        labels: pytree with the group of each parameter.
        *settings: the settings that may differ between groups.
    """
    names = sorted(set(jax.tree.leaves(labels)))
    if not any(isinstance(setting, PerGroup) for setting in settings) or len(names) == 1:
        return make(names[0])
    return optax.partition({name: make(name) for name in names}, labels)


def on_leaves(make: Callable[[Any], optax.GradientTransformation], labels: Any) -> optax.GradientTransformation:
    """A transformation that sees the arrays of a tree as a tuple, without their structure.

    Optax calls jitted functions of its own, whose caches in JAX keep the structures of their arguments. Those of a
    problem hold the user's model, which would never be freed.

    Args:
        make: makes the transformation from the labels of the arrays.
        labels: the tree with the label of each array.
    """
    plain = make(_leaves(labels))

    def init(params: optax.Params) -> optax.OptState:
        return plain.init(_leaves(params))

    def update(
        updates: optax.Updates, state: optax.OptState, params: optax.Params | None = None
    ) -> tuple[optax.Updates, optax.OptState]:
        changes, state = plain.update(_leaves(updates), state, None if params is None else _leaves(params))
        return jax.tree.unflatten(jax.tree.structure(updates), changes), state

    return optax.GradientTransformation(init, update)


def _leaves(tree: Any) -> tuple[Any, ...]:
    return tuple(jax.tree.leaves(tree))
