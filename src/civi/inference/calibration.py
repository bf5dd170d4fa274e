"""`civi.sbc`: simulation-based calibration of the fits of a NumPyro model (Talts et al. 2018).

If parameters are drawn from the prior and data from the model, the rank of a true parameter among draws of its
posterior is uniform. Draws of q are independent, so that they need no thinning.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpyro.infer import Predictive
from rich.table import Table

from civi.errors import SettingError, TargetError, require
from civi.inference.arguments import as_words, check_count
from civi.inference.many import OPTIONS, Fits, fit_many
from civi.inference.ranks import holm, p_values, shape_of
from civi.inference.seeds import Words, derived, threefry
from civi.problem.target.numpyro_sites import explained

PRIOR, FITS, RANKS = range(3)
ROWS, LEVEL = 40, 0.05


@dataclass(frozen=True)
class Calibration:
    """Ranks of the true parameters among draws of the fitted posteriors. Rich prints it as a table.

    Attributes:
        names: the parameters, one for each element of a site.
        ranks: number of draws below the true value, of shape (simulation, parameter).
        draws: number of draws, which is the largest rank.
        p_values: of uniform ranks, for each parameter alone.
        adjusted: the same, adjusted for the number of parameters by Holm's method.
        level: the family-wise error: how often correct posteriors are called bad.
        fits: all fits, with their verdicts and errors.
    """

    names: list[str]
    ranks: np.ndarray
    draws: int
    p_values: np.ndarray
    adjusted: np.ndarray
    level: float
    fits: Fits

    @property
    def verdict(self) -> str:
        """bad if the ranks of a parameter are not uniform, otherwise good."""
        return "bad" if (self.adjusted <= self.level).any() else "good"

    @property
    def sentence(self) -> str:
        """What the verdict means."""
        failed = len(self.fits.errors)
        lost = f" {failed} fits failed and are not counted, which may hide errors." if failed else ""
        count = f"{len(self.ranks)} simulations"
        if self.verdict == "good":
            return f"The ranks of all {len(self.names)} parameters are uniform as far as {count} can tell.{lost}"
        worst = int(np.argmin(self.adjusted))
        shape = shape_of(self.ranks[:, worst], self.draws)
        bad = int((self.adjusted <= self.level).sum())
        first = f"The ranks of {bad} of {len(self.names)} parameters are not uniform in {count}"
        return f"{first}; of {self.names[worst]}, the {shape}.{lost}"

    def plot(self, names: list[str] | None = None) -> Any:
        """Plot the empirical distributions of ranks, minus the uniform one, with the envelope that they must stay in.

        Args:
            names: the parameters; by default the twelve with the smallest p-values.

        Returns:
            A Matplotlib figure.
        """
        from civi.inference.rank_figure import rank_figure  # noqa: PLC0415 start-up time

        chosen = [self.names[i] for i in np.argsort(self.p_values)[:12]] if names is None else names
        missing = [name for name in chosen if name not in self.names]
        require(not missing, f"unknown parameters: {', '.join(missing)}; known: {', '.join(self.names)}")
        ranks = {name: self.ranks[:, self.names.index(name)] for name in chosen}
        return rank_figure(ranks, self.draws, self.level)

    def __str__(self) -> str:
        return f"calibration is {self.verdict}. {self.sentence}"

    def __rich__(self) -> Table:
        title = f"calibration is {self.verdict}"
        table = Table("parameter", "p", "adjusted p", "verdict", title=title, caption=self.sentence)
        for i in np.argsort(self.p_values)[:ROWS]:
            word = "bad" if self.adjusted[i] <= self.level else "good"
            table.add_row(self.names[i], f"{self.p_values[i]:.3g}", f"{self.adjusted[i]:.3g}", word)
        return table


def sbc(
    model: Callable[..., Any],
    *args: Any,
    key: Any,
    simulations: int = 100,
    draws: int = 99,
    observed: Mapping[str, str] | None = None,
    level: float = LEVEL,
    **kwargs: Any,
) -> Calibration:
    """Check by simulation that fits of a model are calibrated.

    Parameters and data are drawn from the model, each data set is fitted with `civi.fit_many`, and the ranks of the
    true parameters are tested for uniformity, exactly and with control of the family-wise error.

    Args:
        model: a NumPyro model that draws its data if their arguments are left out, such as `def model(x, y=None)`.
        *args: arguments of the model that are the same in all simulations.
        key: random key, or a whole number as its seed.
        simulations: number of data sets.
        draws: number of draws per posterior, which is the largest rank.
        observed: the argument that takes the data of each observed site, such as {"obs": "y"}. By default, every
            argument that is left out and has the name of a site.
        level: the family-wise error.
        **kwargs: arguments of the model by name, and options of `civi.fit_many` and `civi.fit`.

    Returns:
        Ranks, p-values and a verdict; `plot()` shows the ranks.

    Example:
        >>> import civi, jax.numpy as jnp, numpyro, numpyro.distributions as dist
        >>> def model(y=None):
        ...     mean = numpyro.sample("mean", dist.Normal(0, 1))
        ...     numpyro.sample("y", dist.Normal(mean, 1), obs=y)
        >>> found = civi.sbc(model, key=0, simulations=10, runs=1, diagnose=False, progress=False)
        >>> found.ranks.shape
        (10, 1)
    """
    words = as_words(key)
    check_count("simulations", simulations, 10)
    check_count("draws", draws, 9)
    require(0 < level < 1, f"level must be in (0, 1), not {level}")
    options = OPTIONS | set(inspect.signature(fit_many).parameters)
    arguments = {name: value for name, value in kwargs.items() if name not in options}
    prior = _prior_draws(model, args, arguments, derived(words, PRIOR), simulations)
    taken = _observed(model, args, arguments, prior, observed)
    datasets = [{argument: prior[site][i] for site, argument in taken.items()} for i in range(simulations)]
    fits = fit_many(model, datasets, *args, key=threefry(derived(words, FITS)), **kwargs)
    truths = {name: value for name, value in prior.items() if name not in taken}
    names, ranks = ranks_of(fits, truths, derived(words, RANKS), draws)
    found = p_values(ranks, draws)
    return Calibration(names, ranks, draws, found, holm(found), level, fits)


def ranks_of(fits: Any, truths: Mapping[str, np.ndarray], words: Words, draws: int) -> tuple[list[str], np.ndarray]:
    """Names of the parameters, and the number of draws below each true value, of shape (simulation, parameter).

    Args:
        fits: a posterior for each simulation, or None.
        truths: true values of the sites, with a leading axis for the simulations.
        words: the seed of the draws.
        draws: number of draws per posterior.
    """
    names: list[str] = []
    rows = []
    for i, posterior in enumerate(fits):
        if posterior is None:
            continue
        drawn = posterior.sample(threefry(derived(words, i)), draws)
        sites = [site for site in truths if site in drawn]
        names = names or [name for site in sites for name in _elements(site, truths[site].shape[1:])]
        rows.append(np.concatenate([(drawn[site] < truths[site][i]).sum(0).reshape(-1) for site in sites]))
    return names, np.stack(rows)


def _prior_draws(
    model: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], words: Words, count: int
) -> dict[str, np.ndarray]:
    """Draws of all sites of the model without data."""
    with explained({}):
        drawn = Predictive(model, num_samples=count)(threefry(words), *args, **kwargs)
    return {name: np.asarray(value) for name, value in drawn.items()}


def _observed(
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    prior: Mapping[str, Any],
    observed: Mapping[str, str] | None,
) -> dict[str, str]:
    """The argument of each observed site; raises SettingError if there is none or one does not exist."""
    signature = inspect.signature(model)
    given = {name for name, value in signature.bind_partial(*args, **kwargs).arguments.items() if value is not None}
    if observed is None:
        observed = {name: name for name in signature.parameters if name in prior and name not in given}
    if not observed:
        raise SettingError(
            "no argument of the model has the name of a site: leave the data out, and say which argument takes the "
            "data of which site, such as observed={'obs': 'y'}"
        )
    for site, argument in observed.items():
        require(site in prior, f"observed: the model has no site {site}; known: {', '.join(prior)}")
        known = argument in signature.parameters
        require(known, f"observed: the model has no argument {argument}; known: {', '.join(signature.parameters)}")
        require(argument not in given, f"the argument {argument} takes simulated data: leave it out")
    if set(observed) >= set(prior):
        raise TargetError("all sites of the model are observed: there is nothing to infer")
    return dict(observed)


def _elements(site: str, shape: tuple[int, ...]) -> list[str]:
    return [f"{site}[{', '.join(map(str, index))}]" if index else site for index in np.ndindex(*shape)]
