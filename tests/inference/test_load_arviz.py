"""What both versions of ArviZ make of a posterior, and the error without ArviZ."""

import jax
import numpy as np
import pytest
import xarray
from numpyro.infer import MCMC, NUTS
from scipy import stats

from civi.errors import DependencyError
from civi.inference import load_arviz
from civi.inference.labelled import write_tree
from exact_posterior import DESIGN, NOISE, ROWS, X, Y, exact, level, line, moments


@pytest.fixture(scope="module")
def az():
    try:
        return load_arviz.import_arviz()
    except DependencyError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def posterior():
    return exact(line, X, Y)


@pytest.fixture(scope="module")
def tree(posterior):
    return posterior.to_datatree(jax.random.key(1), 3000)


@pytest.fixture(scope="module")
def data(az, posterior):
    return posterior.to_inference_data(jax.random.key(1), 3000)


@pytest.fixture(scope="module")
def without_slope(az):
    return exact(level, X, Y, columns=1).to_inference_data(jax.random.key(2), 3000)


def exact_loo(design: np.ndarray) -> float:
    """Sum over rows of log p(y_n | the other rows), each a normal density in closed form."""
    total = 0.0
    for n in range(ROWS):
        rest, left = np.delete(design, n, 0), np.delete(Y, n)
        covariance = np.linalg.inv(rest.T @ rest / NOISE**2 + np.eye(design.shape[1]) / 4)
        mean = covariance @ rest.T @ left / NOISE**2
        sd = np.sqrt(design[n] @ covariance @ design[n] + NOISE**2)
        total += stats.norm.logpdf(Y[n], design[n] @ mean, sd)
    return total


@pytest.mark.filterwarnings("ignore")
def test_loo_is_the_exact_one_and_compare_prefers_the_slope(az, data, without_slope):
    with_slope, level_only = az.loo(data), az.loo(without_slope)
    ranked = az.compare({"line": data, "level": without_slope})
    assert abs(with_slope.elpd_loo - exact_loo(DESIGN)) < 0.2
    assert abs(level_only.elpd_loo - exact_loo(DESIGN[:, :1])) < 0.2
    assert exact_loo(DESIGN) - exact_loo(DESIGN[:, :1]) > 1
    assert list(ranked.index) == ["line", "level"]


@pytest.mark.filterwarnings("ignore")
def test_loo_agrees_with_that_of_nuts(az, data):
    mcmc = MCMC(NUTS(line), num_warmup=300, num_samples=1500, progress_bar=False)
    mcmc.run(jax.random.key(0), X, Y)
    reference = az.from_numpyro(mcmc)
    assert abs(az.loo(data).elpd_loo - az.loo(reference).elpd_loo) < 0.2


@pytest.mark.filterwarnings("ignore")
def test_summary_and_plots_take_the_data(az, data):
    import matplotlib.pyplot as plt

    summary = az.summary(data, kind="stats")
    mean, covariance = moments(DESIGN)
    np.testing.assert_allclose(summary.loc[["a", "b"], "mean"], mean, atol=0.01)
    np.testing.assert_allclose(summary.loc[["a", "b"], "sd"], np.sqrt(np.diag(covariance)), atol=0.01)
    for plot in (az.plot_trace, az.plot_pair, az.plot_ppc):
        plot(data)
        plt.close("all")


def test_the_file_of_a_tree_is_the_same_inference_data(az, data, tree, tmp_path):
    write_tree(tmp_path / "draws.nc", tree)
    read = az.from_netcdf(tmp_path / "draws.nc", engine="h5netcdf")
    assert set(read.groups()) == set(data.groups()) == set(tree.children)
    for group in read.groups():
        assert read[group].equals(data[group])
    read.close()


def test_arviz_one_reads_the_tree_and_its_file(tree, posterior, tmp_path):
    base, arviz_stats = pytest.importorskip("arviz_base"), pytest.importorskip("arviz_stats")
    write_tree(tmp_path / "draws.nc", tree)
    with xarray.open_datatree(tmp_path / "draws.nc", engine="h5netcdf") as file:
        read = base.convert_to_datatree(file).load()
    for group in tree.children:
        assert read[group].to_dataset().equals(tree[group].to_dataset())
    mean, covariance = moments(DESIGN)
    summary = arviz_stats.summary(read, var_names=["a", "b"], round_to="none")
    np.testing.assert_allclose(summary["mean"], mean, atol=0.01)
    np.testing.assert_allclose(summary["sd"], np.sqrt(np.diag(covariance)), atol=0.01)
    stats_of_draws = read["sample_stats"]
    corrected = arviz_stats.loo_approximate_posterior(read, stats_of_draws["lp"], stats_of_draws["log_q_upper"])
    assert abs(corrected.elpd - posterior.loo(jax.random.key(1), 3000).elpd) < 0.02


@pytest.mark.parametrize(("found", "reason"), [(None, "ArviZ is not installed"), ("1.3.0", "ArviZ 1.3.0 has no")])
def test_without_arviz_before_one_the_error_names_the_data_tree(posterior, monkeypatch, found, reason):
    def version(name):
        if found is None:
            raise load_arviz.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(load_arviz, "version", version)
    with pytest.raises(DependencyError, match=rf"^{reason}.*: use posterior.to_datatree\(key\)"):
        posterior.to_inference_data(0)
