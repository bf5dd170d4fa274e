"""Primary updates by name: settings from which Optax transformations are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import jax.numpy as jnp
import optax

from civi.errors import require
from civi.settings import check_settings, self_checking
from civi.update import schedule
from civi.update.civi_adam import civi_adam
from civi.update.groups import ByGroup, by_group, value_for, values_of
from civi.update.hold import hold
from civi.update.proximal import proximal

LARGEST_CLIP = 1e18  # the square of a larger norm overflows
LARGEST_PENALTY = 1e6  # far above the weight at which every parameter is 0
Clip = Annotated[float | None, "Maximum norm of the gradient (clipping by global norm); none: no clipping."]


@runtime_checkable
class Update(Protocol):
    """Settings of a primary update."""

    def transformation(self, labels: Any, steps: int) -> optax.GradientTransformation:
        """The Optax transformation.

        Args:
            labels: pytree with the group of each parameter.
            steps: length of the run, for the schedules.
        """
        ...


@self_checking
@dataclass(frozen=True)
class CiviAdam:
    """The paper's update with the theorem's schedules; C_alpha and C_gamma may differ between parameter groups."""

    c_alpha: Annotated[ByGroup, "C_alpha of the step size alpha_t = C_alpha t^(-1/5)."] = 3e-4
    c_gamma: Annotated[ByGroup, "C_gamma of the momentum gamma1_t = C_gamma mu^t."] = 0.9
    mu: Annotated[float, "Decay rate of the momentum, mu^t."] = 0.999
    xi: Annotated[float, "Constant added to the square root of the second moment."] = 1e-8
    clip: Clip = None

    def __post_init__(self) -> None:
        check_settings(self, "update")
        for value in values_of(self.c_alpha):
            require(value > 0, f"update.c_alpha must be positive, not {value}")
        for value in values_of(self.c_gamma):
            require(0 <= value <= 1, f"update.c_gamma must be in [0, 1], not {value}")
        require(0 < self.mu < 1, f"update.mu must be in (0, 1), not {self.mu}")
        require(self.xi > 0, f"update.xi must be positive, not {self.xi}")
        _check_clip(self.clip)

    def transformation(self, labels: Any, steps: int) -> optax.GradientTransformation:
        return _clipped(self.clip, by_group(self._for_group, labels, self.c_alpha, self.c_gamma))

    def _for_group(self, group: str) -> optax.GradientTransformation:
        c_alpha, c_gamma = value_for(self.c_alpha, group), value_for(self.c_gamma, group)
        return civi_adam(
            schedule.alpha(c_alpha),
            schedule.gamma1(c_gamma, self.mu),
            schedule.one_minus_gamma2(c_alpha, c_gamma, self.mu),
            self.xi,
        )


@self_checking
@dataclass(frozen=True)
class FirstOrder:
    """Optax's adam, rmsprop or sgd, followed by the proximal step of l1 |theta|_1 + l2/2 |theta|^2 if these are set.

    l2 may differ between parameter groups.
    """

    rule: Annotated[Literal["adam", "rmsprop", "sgd"], "Optax optimiser."] = "adam"
    learning_rate: Annotated[float, "Initial learning rate."] = 1e-2
    decay: Annotated[
        Literal["cosine", "hold", "power", "stairs", "constant"],
        "Learning-rate schedule: cosine to 0, constant for half the run then cosine (hold), t^(-power), "
        "a factor after every so many steps (stairs), or constant.",
    ] = "cosine"
    power: Annotated[float, "Exponent of the schedule decay=power."] = 0.5
    factor: Annotated[float, "Factor of the learning rate per stair of decay=stairs."] = 0.9
    stair: Annotated[int, "Steps per stair of decay=stairs."] = 1000
    beta2: Annotated[float, "Adam's weight of the past in its running mean of squared gradients."] = 0.999
    warm_up: Annotated[int, "Steps over which the learning rate first rises linearly from 0; 0: none."] = 0
    clip: Clip = None
    l1: Annotated[float, "Weight of the proximal penalty |theta|_1."] = 0.0
    l2: Annotated[ByGroup, "Weight of the proximal penalty |theta|^2 / 2."] = 0.0

    def __post_init__(self) -> None:
        check_settings(self, "update")
        require(self.learning_rate > 0, f"update.learning_rate must be positive, not {self.learning_rate}")
        require(self.learning_rate <= 1e6, f"update.learning_rate must be at most 1e6, not {self.learning_rate}")
        require(0 <= self.power <= 10, f"update.power must be in [0, 10], not {self.power}")
        require(0 < self.factor <= 1, f"update.factor must be in (0, 1], not {self.factor}")
        require(self.stair >= 1, f"update.stair must be at least 1, not {self.stair}")
        require(0 < self.beta2 < 1, f"update.beta2 must be in (0, 1), not {self.beta2}")
        for value in (self.l1, *values_of(self.l2)):
            require(value >= 0, f"update.l1 and update.l2 must not be negative, but one is {value}")
            require(
                value <= LARGEST_PENALTY,
                f"update.l1 and update.l2 must be at most {LARGEST_PENALTY:g}, but one is {value:g}",
            )
        require(self.warm_up >= 0, f"update.warm_up must not be negative, not {self.warm_up}")
        _check_clip(self.clip)

    def transformation(self, labels: Any, steps: int) -> optax.GradientTransformation:
        rate = self.schedule(steps)
        rule = self._rule(rate)
        if self.decay == "hold":
            rule = optax.chain(self._rule(self._warmed(optax.constant_schedule(self.learning_rate))), _hold(steps))
        if not any((self.l1, *values_of(self.l2))):
            return _clipped(self.clip, optax.chain(rule))

        def shrink(group: str) -> optax.GradientTransformation:
            return proximal(self.l1, value_for(self.l2, group), lambda t: rate(t - 1))

        return _clipped(self.clip, optax.chain(rule, by_group(shrink, labels, self.l2)))

    def schedule(self, steps: int) -> optax.Schedule:
        """The learning rate as a function of the number of updates so far, for a run of `steps` steps."""
        return self._warmed(self._decay(steps))

    def _rule(self, rate: optax.Schedule) -> optax.GradientTransformation:
        return optax.adam(rate, b2=self.beta2) if self.rule == "adam" else RULES[self.rule](rate)

    def _warmed(self, rate: optax.Schedule) -> optax.Schedule:
        """This schedule, with a linear increase from 0 over the first `warm_up` updates."""
        if not self.warm_up:
            return rate
        return lambda count: rate(count) * jnp.minimum(1.0, (count + 1) / self.warm_up)

    def _decay(self, steps: int) -> optax.Schedule:
        constant, half = optax.constant_schedule(self.learning_rate), steps // 2
        if self.decay == "cosine":
            return optax.cosine_decay_schedule(self.learning_rate, steps)
        if self.decay == "hold":
            falling = optax.cosine_decay_schedule(self.learning_rate, steps - half)
            return optax.join_schedules([constant, falling], [half])
        if self.decay == "power":
            return lambda count: self.learning_rate * (count + 1.0) ** (-self.power)
        if self.decay == "stairs":
            return optax.exponential_decay(self.learning_rate, self.stair, self.factor, staircase=True)
        return constant


RULES = {"rmsprop": optax.rmsprop, "sgd": optax.sgd}


def _hold(steps: int) -> optax.GradientTransformation:
    """Hold for the first half of the run, then decay."""
    return hold(steps // 2, steps - steps // 2)


def _check_clip(clip: float | None) -> None:
    require(clip is None or clip > 0, f"update.clip must be positive, or none for no clipping, not {clip}")
    fine = clip is None or clip <= LARGEST_CLIP
    require(fine, f"update.clip must be at most {LARGEST_CLIP:g}, or none for no clipping, not {clip}")


def _clipped(clip: float | None, transformation: optax.GradientTransformation) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(clip), transformation) if clip else transformation
