"""Leave-one-out cross-validation of a posterior approximation (Magnusson et al. 2019).

With draws z_s of q, the posterior without observation i has the importance weights

    log w_is = log p(x, z_s) - log q(z_s) - log p(x_i | z_s),

which correct for q and leave x_i out at once. They are Pareto-smoothed for every observation, and

    elpd_i = log sum_s w_is p(x_i | z_s) - log sum_s w_is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpyro import handlers
from numpyro.infer import log_likelihood
from rich.table import Table
from scipy.special import logsumexp

from civi.errors import TargetError, require
from civi.inference.diagnose.importance import smooth_weights
from civi.inference.diagnose.pareto import pareto_smoothed
from civi.problem.target.numpyro_sites import Rows, explained, started
from civi.problem.target.traced import Origin
from civi.progress import Say, counted, silent

LARGEST, SHOWN = 200_000_000, 10


@dataclass(frozen=True)
class Loo:
    """Expected log pointwise predictive density (elpd) by leave-one-out cross-validation. Rich prints it as a table.

    Attributes:
        pointwise: elpd of each observation, by observed site.
        k_hats: shape of the tail of the weights of each observation, by observed site.
        log_predictive: log predictive density of each observation under the posterior with all data, by observed site.
        draws: number of draws.
    """

    pointwise: dict[str, np.ndarray]
    k_hats: dict[str, np.ndarray]
    log_predictive: dict[str, np.ndarray]
    draws: int

    @property
    def elpd(self) -> float:
        """The sum over all observations."""
        return float(_joined(self.pointwise).sum())

    @property
    def se(self) -> float:
        """Standard error of elpd, from the differences between observations."""
        each = _joined(self.pointwise)
        return float(np.sqrt(len(each)) * each.std())

    @property
    def p_loo(self) -> float:
        """The effective number of parameters: how much worse an observation is predicted if it is left out."""
        return float(_joined(self.log_predictive).sum() - self.elpd)

    @property
    def limit(self) -> float:
        """The largest k_hat that is reliable with this number of draws: min(1 - 1 / log10(draws), 0.7)."""
        return float(min(1 - 1 / np.log10(self.draws), 0.7))

    @property
    def unreliable(self) -> int:
        """Number of observations whose k_hat is too large."""
        return int((~(_joined(self.k_hats) <= self.limit)).sum())

    @property
    def sentence(self) -> str:
        """How far elpd can be trusted."""
        count, limit = len(_joined(self.k_hats)), f"{self.limit:.2f}"
        if not self.unreliable:
            return f"All {count} k-hats are at most {limit}: the estimate is reliable."
        return (
            f"{self.unreliable} of {count} k-hats exceed {limit}: fit again without these observations, or use K-fold "
            "cross-validation; if many do, the fit itself is off (see diagnose), and refine(key).loo(key) may help."
        )

    def __rich__(self) -> Table:
        table = Table("measure", "value", title="leave-one-out cross-validation", caption=self.sentence)
        table.add_row("elpd", f"{self.elpd:.2f} ± {self.se:.2f}")
        table.add_row("p_loo", f"{self.p_loo:.2f}")
        table.add_row("largest k_hat", f"{_joined(self.k_hats).max():.2f}")
        for site, index, k_hat in self._worst():
            table.add_row(f"k_hat of {site}[{', '.join(map(str, index))}]", f"{k_hat:.2f}", style="dim")
        return table

    def __str__(self) -> str:
        return f"elpd {self.elpd:.2f} ± {self.se:.2f}, p_loo {self.p_loo:.2f}\n{self.sentence}"

    def _worst(self) -> list[tuple[str, tuple[int, ...], float]]:
        """The observations with the largest k-hats that are too large, at most SHOWN."""
        every = [
            (site, tuple(int(i) for i in index), float(k_hats[tuple(index)]))
            for site, k_hats in self.k_hats.items()
            for index in np.argwhere(~(k_hats <= self.limit))
        ]
        return sorted(every, key=lambda row: -row[2])[:SHOWN]


def loo(origin: Origin, draws: dict[str, np.ndarray], log_ratios: np.ndarray, say: Say = silent) -> Loo:
    """Leave-one-out cross-validation.

    Args:
        origin: the NumPyro model, its arguments and its sites.
        draws: draws of the sites, with a leading axis.
        log_ratios: log p - log q at the draws; zeros for exact draws.
        say: shows what is being done.
    """
    say("evaluating the likelihood of each observation")
    return loo_of(log_likelihoods(origin, draws), log_ratios, say)


def loo_of(likelihoods: Mapping[str, np.ndarray], log_ratios: np.ndarray, say: Say = silent) -> Loo:
    """Leave-one-out cross-validation from log p(x_i | z_s) by observed site, with the draws s as the leading axis.

    Args:
        likelihoods: the log likelihoods in double precision.
        log_ratios: log p - log q at the draws; zeros for exact draws.
        say: shows what is being done.
    """
    made = {site: _of_site(values, log_ratios, say) for site, values in likelihoods.items()}
    elpd, k_hats, full = ({site: parts[i] for site, parts in made.items()} for i in range(3))
    return Loo(elpd, k_hats, full, len(log_ratios))


def log_likelihoods(origin: Origin, draws: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """log p(x_i | z_s) in double precision by observed site, with the draws s as the leading axis."""
    sites = origin.sites
    if not sites.observed:
        raise TargetError("the model has no observed site: there is nothing to leave out")
    if sites.discrete:
        raise TargetError("the model has discrete sites that are summed out: NumPyro has no likelihood of one value")
    latent = {name: draws[name] for name in sites.latent}
    model = Rows(handlers.seed(origin.model, jax.random.key(0)))
    with explained(sites.plates):
        values = log_likelihood(model, latent, *origin.args, **origin.kwargs)
    return {name: np.asarray(values[name], np.float64) for name in sites.observed}


def check_size(origin: Origin, count: int) -> None:
    """Refuse more draws than fit into memory with all observations."""

    def values() -> list[Array]:
        trace, _ = started(origin.model, origin.args, origin.kwargs)
        return [jnp.asarray(trace[name]["value"]) for name in origin.sites.observed]

    rows = max((shape.size for shape in jax.eval_shape(values)), default=1)
    fits = count * rows <= LARGEST
    require(fits, f"{count} draws of {rows} observations need too much memory: use at most {LARGEST // rows} draws")


def _of_site(values: np.ndarray, log_ratios: np.ndarray, say: Say) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """elpd, k_hat and log predictive density of each observation of a site."""
    shape = values.shape[1:]
    of_each = values.reshape(len(values), -1).T
    log_weights, k_hats = _smoothed(log_ratios - of_each, say)
    elpd = logsumexp(log_weights + of_each, axis=1) - logsumexp(log_weights, axis=1)
    of_all = smooth_weights(log_ratios).log_weights
    full = logsumexp(of_all + of_each, axis=1) - logsumexp(of_all)
    return elpd.reshape(shape), k_hats.reshape(shape), full.reshape(shape)


def _smoothed(log_ratios: np.ndarray, say: Say) -> tuple[np.ndarray, np.ndarray]:
    """Pareto-smoothed log weights (observation, draw), and k_hat of each observation."""
    phase = "smoothing the weights of each observation"
    say(phase)
    smoothed = [pareto_smoothed(of_one) for of_one in counted(list(log_ratios), phase, say)]
    return np.stack([log_weights for log_weights, _ in smoothed]), np.array([k_hat for _, k_hat in smoothed])


def _joined(of_sites: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([values.reshape(-1) for values in of_sites.values()])
