"""The methods by name. Each is a choice of primary update, of the point where the inner mean is looked at again, of
its smoothing weight beta_t, and of a sketch; the step they share is in `civi.compositional.step`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

import optax
from jaxtyping import Array, Float

from civi.compositional.problem import Theta
from civi.errors import require
from civi.estimate import Sketch
from civi.tracker.smoothing import extrapolate
from civi.update import FirstOrder, Samples, civi_adam, schedule
from civi.update.schedule import Schedule

Query = Callable[[Theta, Theta, Float[Array, ""]], Theta]


class Tracking(NamedTuple):
    """The auxiliary update y_{t+1} = (1 - beta_t) y_t + beta_t g(query(theta_t, theta_{t+1}, beta_t))."""

    query: Query
    beta: Schedule


class Parts(NamedTuple):
    """What a method is made of; without tracking the gradient uses the step's own inner mean."""

    update: optax.GradientTransformation
    tracking: Tracking | None
    sketch: Sketch


@runtime_checkable
class Method(Protocol):
    """Settings of a method."""

    @property
    def samples(self) -> Samples:
        """K1 samples of f, K2 of grad g and K3 of g in every step."""
        ...

    def parts(self, steps: int) -> Parts:
        """The parts for a run of `steps` steps."""
        ...


@dataclass(frozen=True)
class Scgd:
    """SCGD, stochastic compositional gradient descent (Wang, Fang and Liu 2017, Math. Program. 161).

        theta_{t+1} = theta_t - alpha_t grad g(theta_t)' grad f(y_t)          alpha_t = C_alpha t^(-3/4)
        y_{t+1}     = (1 - beta_t) y_t + beta_t g(theta_{t+1})                beta_t  = C_beta t^(-1/2)

    The paper smooths at theta_t before the gradient; here, as in the other methods, at theta_{t+1} after it, with fresh
    samples. Both are the same sequence but for the first y.
    """

    c_alpha: float = 0.5
    c_beta: float = 1.0
    samples: Samples = field(default_factory=lambda: Samples(16, 16))

    def __post_init__(self) -> None:
        _check_constants(self.c_alpha, self.c_beta)

    def parts(self, steps: int) -> Parts:
        update = FirstOrder("sgd", self.c_alpha, "power", 3 / 4)
        return Parts(update.transformation(None, steps), Tracking(_at_next, _power(self.c_beta, 1 / 2)), Sketch())


@dataclass(frozen=True)
class AscPg:
    """ASC-PG, accelerated stochastic compositional proximal gradient (Wang, Liu and Fang 2017, JMLR 18).

        theta_{t+1} = prox_{alpha_t R}(theta_t - alpha_t grad g(theta_t)' grad f(y_t))     alpha_t = C_alpha t^(-5/9)
        z_{t+1}     = (1 - 1/beta_t) theta_t + theta_{t+1} / beta_t
        y_{t+1}     = (1 - beta_t) y_t + beta_t g(z_{t+1})                                 beta_t  = C_beta t^(-4/9)

    R(theta) = l1 |theta|_1 + l2/2 |theta|_2^2 is added to the objective.
    """

    c_alpha: float = 0.2
    c_beta: float = 1.0
    l1: float = 0.0
    l2: float = 0.0
    samples: Samples = field(default_factory=lambda: Samples(16, 16))

    def __post_init__(self) -> None:
        _check_constants(self.c_alpha, self.c_beta)
        require(min(self.l1, self.l2) >= 0, f"l1 and l2 must not be negative, not {self.l1} and {self.l2}")

    def parts(self, steps: int) -> Parts:
        update = FirstOrder("sgd", self.c_alpha, "power", 5 / 9, l1=self.l1, l2=self.l2)
        return Parts(update.transformation(None, steps), Tracking(extrapolate, _power(self.c_beta, 4 / 9)), Sketch())


@dataclass(frozen=True)
class Cadam:
    """C-ADAM, compositional ADAM (Tutunov, Li, Cowen-Rivers, Wang and Bou-Ammar 2020).

        m_t = gamma1_t m_{t-1} + (1 - gamma1_t) G_t,  v_t = gamma2_t v_{t-1} + (1 - gamma2_t) G_t^2
        theta_{t+1} = theta_t - alpha_t m_t / (sqrt(v_t) + xi)                G_t = grad g(theta_t)' grad f(y_t)
        z_{t+1}     = (1 - 1/beta) theta_t + theta_{t+1} / beta
        y_{t+1}     = (1 - beta) y_t + beta g(z_{t+1})

    with alpha_t, gamma1_t, gamma2_t of `civi.update.schedule` and beta = C_beta. The batch is constant unless
    samples.growth is set.
    """

    c_alpha: float = 0.01
    c_beta: float = 0.2
    c_gamma: float = 0.9
    mu: float = 0.999
    xi: float = 1e-8
    samples: Samples = field(default_factory=lambda: Samples(16, 16))

    def __post_init__(self) -> None:
        _check_adam(self.c_alpha, self.c_beta, self.c_gamma, self.mu, self.xi)

    def parts(self, steps: int) -> Parts:
        update = _theorem_adam(self.c_alpha, self.c_gamma, self.mu, self.xi)
        return Parts(update, Tracking(extrapolate, _power(self.c_beta, 0.0)), Sketch())


@dataclass(frozen=True)
class Civi:
    """CI-VI's solver (Algorithms 1 and 2): the update of C-ADAM, batches K_t = C t^(4/5), and gradient sketching

        G_t = n/d sum over k in S_t of grad g_k(theta_t) df/dy_k(y_t),        S_t: d of the n entries of y

    Algorithm 2 pairs the samples of f and g; here, as in Algorithm 1, each is averaged first. Without a sketch and with
    the same samples, Civi and Cadam are the same method.
    """

    c_alpha: float = 0.01
    c_beta: float = 0.2
    c_gamma: float = 0.9
    mu: float = 0.999
    xi: float = 1e-8
    samples: Samples = field(default_factory=lambda: Samples(1, 1, growth=0.8))
    sketch: Sketch = field(default_factory=Sketch)

    def __post_init__(self) -> None:
        _check_adam(self.c_alpha, self.c_beta, self.c_gamma, self.mu, self.xi)

    def parts(self, steps: int) -> Parts:
        update = _theorem_adam(self.c_alpha, self.c_gamma, self.mu, self.xi)
        return Parts(update, Tracking(extrapolate, _power(self.c_beta, 0.0)), self.sketch)


@dataclass(frozen=True)
class Nmc:
    """Nested Monte Carlo: no tracking, G_t = grad g(theta_t)' grad f(g(theta_t)) from this step's samples alone.

    Its bias falls as 1/K2 and not with the steps. The update is Optax's adam, rmsprop or sgd.
    """

    update: FirstOrder = field(default_factory=FirstOrder)
    samples: Samples = field(default_factory=lambda: Samples(16, 16))

    def parts(self, steps: int) -> Parts:
        return Parts(self.update.transformation(None, steps), None, Sketch())


METHODS: dict[str, type] = {"scgd": Scgd, "asc-pg": AscPg, "cadam": Cadam, "civi": Civi, "nmc": Nmc}


def _at_next(before: Theta, after: Theta, beta: Float[Array, ""]) -> Theta:
    return after


def _power(constant: float, exponent: float) -> Schedule:
    return lambda t: constant * t ** (-exponent)


def _theorem_adam(c_alpha: float, c_gamma: float, mu: float, xi: float) -> optax.GradientTransformation:
    return civi_adam(
        schedule.alpha(c_alpha), schedule.gamma1(c_gamma, mu), schedule.one_minus_gamma2(c_alpha, c_gamma, mu), xi
    )


def _check_constants(c_alpha: float, c_beta: float) -> None:
    require(c_alpha > 0, f"c_alpha must be positive, not {c_alpha}")
    require(0 < c_beta <= 1, f"c_beta must be in (0, 1], not {c_beta}")


def _check_adam(c_alpha: float, c_beta: float, c_gamma: float, mu: float, xi: float) -> None:
    _check_constants(c_alpha, c_beta)
    require(0 <= c_gamma <= 1, f"c_gamma must be in [0, 1], not {c_gamma}")
    require(0 < mu < 1, f"mu must be in (0, 1), not {mu}")
    require(xi > 0, f"xi must be positive, not {xi}")
