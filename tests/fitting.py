"""Short fits for tests: `civi.fit` without a progress bar and without the warning that it has not converged."""

import warnings

import civi
from civi.inference.posterior import SemiImplicitPosterior


def short_fit(*args, **options) -> SemiImplicitPosterior:
    """A fit that ends before it has converged, as most tests need no more."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the fit has not converged")
        return civi.fit(*args, progress=False, **options)
