"""Shared fixtures. pytest puts this file's folder on the import path, with `linear_gaussian` and `montecarlo` in it."""

import pytest

from civi.solver import Model
from linear_gaussian import gaussian_target, linear_family


@pytest.fixture(scope="session")
def linear_model() -> Model:
    return Model(linear_family(), gaussian_target())
