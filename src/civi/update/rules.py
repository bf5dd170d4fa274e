"""Primary updates by name: settings that make an Optax transformation for the parameter groups of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax.numpy as jnp
import optax
from jaxtyping import Array

from civi.errors import require
from civi.update import schedule
from civi.update.civi_adam import civi_adam
from civi.update.proximal import proximal

GROUPS = ("mixing", "scale", "decoder")


@runtime_checkable
class Update(Protocol):
    """Makes the transformation for a run of `steps` steps; `labels` names each parameter's group."""

    def transformation(self, labels: Any, steps: int) -> optax.GradientTransformation:
        """The Optax transformation."""
        ...


@dataclass(frozen=True)
class CiviAdam:
    """The paper's update with the theorem's schedules; scale and decoder may have their own (-1: as mixing)."""

    c_alpha: float = 3e-4
    c_gamma: float = 0.9
    c_alpha_scale: float = -1.0
    c_gamma_scale: float = -1.0
    c_alpha_decoder: float = -1.0
    c_gamma_decoder: float = -1.0
    mu: float = 0.999
    xi: float = 1e-8
    clip: float = 0.0

    def __post_init__(self) -> None:
        require(self.c_alpha > 0, f"update.c_alpha must be positive, not {self.c_alpha}")
        for name in ("c_gamma", "c_gamma_scale", "c_gamma_decoder"):
            value = getattr(self, name)
            as_mixing = name != "c_gamma" and value == -1
            require(as_mixing or 0 <= value <= 1, f"update.{name} must be in [0, 1], not {value}")
        require(0 < self.mu < 1, f"update.mu must be in (0, 1), not {self.mu}")
        require(self.xi > 0, f"update.xi must be positive, not {self.xi}")
        _check_clip(self.clip)

    def transformation(self, labels: Any, steps: int) -> optax.GradientTransformation:
        return _clipped(self.clip, optax.partition({group: self._for_group(group) for group in GROUPS}, labels))

    def _for_group(self, group: str) -> optax.GradientTransformation:
        own_alpha, own_gamma = getattr(self, f"c_alpha_{group}", -1.0), getattr(self, f"c_gamma_{group}", -1.0)
        c_alpha = own_alpha if own_alpha > 0 else self.c_alpha
        c_gamma = own_gamma if own_gamma >= 0 else self.c_gamma
        return civi_adam(
            schedule.alpha(c_alpha),
            schedule.gamma1(c_gamma, self.mu),
            schedule.one_minus_gamma2(c_alpha, c_gamma, self.mu),
            self.xi,
        )


@dataclass(frozen=True)
class FirstOrder:
    """adam, rmsprop or sgd of Optax, then the proximal step of l1 |theta|_1 + l2/2 |theta|^2 where these are given.

    The decoder of an autoencoder may have its own l2 (-1: as the encoder).
    decay: constant, cosine (to 0 at the last step), hold (constant for the first half, then cosine) or power
    (learning_rate t^(-power)).
    """

    rule: str = "adam"
    learning_rate: float = 1e-2
    decay: str = "cosine"
    power: float = 0.5
    clip: float = 0.0
    l1: float = 0.0
    l2: float = 0.0
    l2_decoder: float = -1.0

    def __post_init__(self) -> None:
        require(self.rule in RULES, f"update.rule must be one of {', '.join(RULES)}, not '{self.rule}'")
        require(self.learning_rate > 0, f"update.learning_rate must be positive, not {self.learning_rate}")
        require(self.decay in DECAYS, f"update.decay must be one of {', '.join(DECAYS)}, not '{self.decay}'")
        require(min(self.l1, self.l2) >= 0, f"update.l1 and update.l2 must not be negative: {self.l1}, {self.l2}")
        allowed = self.l2_decoder >= 0 or self.l2_decoder == -1
        require(allowed, f"update.l2_decoder must not be negative (-1: as update.l2), not {self.l2_decoder}")
        _check_clip(self.clip)

    def transformation(self, labels: Any, steps: int) -> optax.GradientTransformation:
        rule = RULES[self.rule](lambda count: self._rate(count, steps))
        return _clipped(self.clip, optax.chain(rule, *self._shrinking(labels, steps)))

    def _shrinking(self, labels: Any, steps: int) -> list[optax.GradientTransformation]:
        """The proximal step, by group where these differ; none without a penalty."""
        own = self.l2 if self.l2_decoder == -1 else self.l2_decoder
        if not (self.l1 or self.l2 or own):
            return []

        def shrinking(l2: float) -> optax.GradientTransformation:
            return proximal(self.l1, l2, lambda t: self._rate(t - 1, steps))

        if own == self.l2:
            return [shrinking(self.l2)]
        return [optax.partition({group: shrinking(own if group == "decoder" else self.l2) for group in GROUPS}, labels)]

    def _rate(self, count: Array, steps: int) -> Array:
        """The learning rate after `count` updates."""
        if self.decay == "cosine":
            return optax.cosine_decay_schedule(self.learning_rate, steps)(count)
        if self.decay == "hold":
            falling = optax.cosine_decay_schedule(self.learning_rate, steps - steps // 2)
            return falling(jnp.maximum(count - steps // 2, 0))
        if self.decay == "power":
            return self.learning_rate * (count + 1.0) ** (-self.power)
        return jnp.asarray(self.learning_rate)


RULES = {"adam": optax.adam, "rmsprop": optax.rmsprop, "sgd": optax.sgd}
DECAYS = ("cosine", "hold", "power", "constant")
UPDATES: dict[str, type] = {"civi-adam": CiviAdam, "optax": FirstOrder}


def _check_clip(clip: float) -> None:
    require(clip >= 0, f"update.clip must not be negative (0: no clipping), not {clip}")


def _clipped(clip: float, transformation: optax.GradientTransformation) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(clip), transformation) if clip else transformation
