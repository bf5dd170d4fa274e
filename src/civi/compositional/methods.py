"""The methods of the literature for E_nu[ f_nu( E_omega[ g_omega(theta) ] ) ], composed of the engine's parts.

A method chooses the primary update, the point at which the tracker evaluates the inner mean, the smoothing weight
beta_t and the sketch. G_t = grad g(theta_t)' grad f(y_t) is the gradient of step t.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from civi.estimate import Sketch
from civi.objective.compositional import ChainRule
from civi.solver import CompositionalSolver
from civi.tracker import Extrapolated, NoTracker, Pool, Smoothed, Tracker
from civi.update import CiviAdam, FirstOrder, Samples, Update

SIXTEEN = Samples(16, 16)
GROWING = Samples(1, 1, growth=0.8)


def scgd(c_alpha: float = 0.5, c_beta: float = 1.0, samples: Samples = SIXTEEN) -> CompositionalSolver:
    """SCGD, stochastic compositional gradient descent (Wang, Fang and Liu 2017, Math. Program. 161).

        theta_{t+1} = theta_t - alpha_t G_t                          alpha_t = C_alpha t^(-3/4)
        y_{t+1}     = (1 - beta_t) y_t + beta_t g(theta_{t+1})       beta_t  = C_beta t^(-1/2)

    The paper updates y at theta_t, before the gradient. Here, as in the other methods, y is updated at theta_{t+1},
    after the gradient and with fresh samples. Both give the same sequence except for the first y.

    Args:
        c_alpha: constant C_alpha of the step size.
        c_beta: constant C_beta of the smoothing weight.
        samples: number of outer and inner samples per step.

    Example:
        >>> from civi.compositional import scgd
        >>> scgd(c_alpha=0.1).update.learning_rate
        0.1
    """
    return _solver(samples, Smoothed(c_beta, 1 / 2), FirstOrder("sgd", c_alpha, "power", 3 / 4))


def asc_pg(
    c_alpha: float = 0.2, c_beta: float = 1.0, l1: float = 0.0, l2: float = 0.0, samples: Samples = SIXTEEN
) -> CompositionalSolver:
    """ASC-PG, accelerated stochastic compositional proximal gradient (Wang, Liu and Fang 2017, JMLR 18).

        theta_{t+1} = prox_{alpha_t R}(theta_t - alpha_t G_t)        alpha_t = C_alpha t^(-5/9)
        z_{t+1}     = (1 - 1/beta_t) theta_t + theta_{t+1} / beta_t
        y_{t+1}     = (1 - beta_t) y_t + beta_t g(z_{t+1})           beta_t  = C_beta t^(-4/9)

    R(theta) = l1 |theta|_1 + l2/2 |theta|_2^2 is added to the objective.

    Args:
        c_alpha: constant C_alpha of the step size.
        c_beta: constant C_beta of the smoothing weight.
        l1: weight of the L1 penalty.
        l2: weight of the L2 penalty.
        samples: number of outer and inner samples per step.

    Example:
        >>> from civi.compositional import asc_pg
        >>> asc_pg(l1=0.01).update.l1
        0.01
    """
    update = FirstOrder("sgd", c_alpha, "power", 5 / 9, l1=l1, l2=l2)
    return _solver(samples, Extrapolated(c_beta, 4 / 9), update)


def cadam(
    c_alpha: float = 0.01,
    c_beta: float = 0.2,
    c_gamma: float = 0.9,
    mu: float = 0.999,
    xi: float = 1e-8,
    samples: Samples = SIXTEEN,
) -> CompositionalSolver:
    """C-ADAM, compositional ADAM (Tutunov, Li, Cowen-Rivers, Wang and Bou-Ammar 2020).

        m_t = gamma1_t m_{t-1} + (1 - gamma1_t) G_t,  v_t = gamma2_t v_{t-1} + (1 - gamma2_t) G_t^2
        theta_{t+1} = theta_t - alpha_t m_t / (sqrt(v_t) + xi)
        z_{t+1}     = (1 - 1/beta) theta_t + theta_{t+1} / beta
        y_{t+1}     = (1 - beta) y_t + beta g(z_{t+1})

    The schedules alpha_t, gamma1_t and gamma2_t are those of `civi.update.schedule`, and beta = C_beta. The sample
    sizes are constant unless samples.growth is set.

    Args:
        c_alpha: constant of the step size.
        c_beta: the smoothing weight.
        c_gamma: constant of gamma1_t.
        mu: decay rate of gamma1_t.
        xi: the small number that is added to sqrt(v_t).
        samples: number of outer and inner samples per step.

    Example:
        >>> from civi.compositional import cadam
        >>> cadam(c_beta=0.5).tracker.beta
        0.5
    """
    return _solver(samples, Extrapolated(c_beta), CiviAdam(c_alpha, c_gamma, mu, xi))


def civi(
    c_alpha: float = 0.01,
    c_beta: float = 0.2,
    c_gamma: float = 0.9,
    mu: float = 0.999,
    xi: float = 1e-8,
    samples: Samples = GROWING,
    sketch: Sketch | None = None,
) -> CompositionalSolver:
    """CI-VI's solver (Algorithms 1 and 2): the update of C-ADAM, batches K_t = C t^(4/5), and gradient sketching

        G_t = n/d sum over k in S_t of grad g_k(theta_t) df/dy_k(y_t),        S_t: d of the n entries of y

    Algorithm 2 pairs the samples of f and g. Here, as in Algorithm 1, each is averaged first. Without a sketch and with
    the same sample sizes, `civi` and `cadam` are the same method.

    Args:
        c_alpha: constant of the step size.
        c_beta: the smoothing weight.
        c_gamma: constant of gamma1_t.
        mu: decay rate of gamma1_t.
        xi: the small number that is added to sqrt(v_t).
        samples: number of outer and inner samples per step.
        sketch: which d of the n entries of y a gradient uses; all by default.

    Example:
        >>> from civi.compositional import civi
        >>> civi(c_alpha=0.1).update.c_alpha
        0.1
    """
    return replace(cadam(c_alpha, c_beta, c_gamma, mu, xi, samples), sketch=sketch or Sketch())


def nmc(update: Update | None = None, samples: Samples = SIXTEEN) -> CompositionalSolver:
    """Nested Monte Carlo: no tracker, G_t = grad g(theta_t)' grad f(g(theta_t)) from the samples of this step alone.

    Its bias is proportional to 1/K2, where K2 is the number of inner samples, and does not decrease with the steps.

    Args:
        update: the update, for example Optax's adam, rmsprop or sgd.
        samples: number of outer and inner samples per step.

    Example:
        >>> from civi.compositional import nmc
        >>> from civi.update import Samples
        >>> nmc(samples=Samples(8, 64)).samples.inner
        64
    """
    return _solver(samples, NoTracker(), update or FirstOrder())


METHODS: dict[str, Callable[..., CompositionalSolver]] = {
    "scgd": scgd,
    "asc-pg": asc_pg,
    "cadam": cadam,
    "civi": civi,
    "nmc": nmc,
}


def _solver(samples: Samples, tracker: Tracker, update: Update) -> CompositionalSolver:
    return CompositionalSolver(
        samples=samples,
        pool=Pool(draw="uniform"),
        tracker=tracker,
        objective=ChainRule(),
        update=update,
    )
