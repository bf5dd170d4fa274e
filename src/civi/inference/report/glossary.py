"""What the measures of a run mean, in a sentence each, for the table of results."""

from __future__ import annotations

MEANINGS = {
    "neg_elbo": "Negative ELBO in nats: an upper bound on -log of the evidence; smaller is better.",
    "neg_elbo_rows": "Number of rows of the sample on which neg_elbo is measured.",
    "kl": "KL(q || p) from the fit to the exact target, in nats; an upper bound.",
    "kl_lower": "Lower bound on KL(q || p); close to kl if the measurement is precise.",
    "sliced_wasserstein": "Distance between the draws of the fit and the reference draws.",
    "sliced_wasserstein_floor": "The same distance between two sets of reference draws: the best possible value.",
    "mode_share_min": "Share of draws in the mode that has fewest, relative to an equal share.",
    "mode_share_max": "Share of draws in the mode that has most, relative to an equal share.",
    "reference": "Where the reference draws come from.",
    "reference_r_hat": "Largest R-hat of the reference chains; at most 1.01 if they have converged.",
    "r_hat": "Largest R-hat of the chains; at most 1.01 if they have converged.",
    "effective_size": "Smallest effective sample size of a parameter.",
    "divergences": "Number of divergent transitions.",
    "sd_ratio_min": "Smallest ratio of a standard deviation to that of the reference; 1 is exact.",
    "sd_ratio_max": "Largest ratio of a standard deviation to that of the reference; 1 is exact.",
    "mean_error_max": "Largest error of a mean, in standard deviations of the reference.",
    "correlation_error_max": "Largest error of a correlation.",
    "marginal_log_density": "Mean log density of reference draws under the marginals of the fit; larger is better.",
    "marginal_log_density_reference": "The same under the marginals of other reference draws: the best possible value.",
    "data": "Which data were used.",
    "train_rows": "Number of training rows.",
    "test_rows": "Number of test rows.",
    "rmse": "Root mean squared error of the predictive mean on test rows.",
    "rmse_standardised": "rmse in standard deviations of the target.",
    "nll": "Negative log predictive density of a test row, in nats; smaller is better.",
    "coverage_50": "Share of test rows inside their central 50 % interval.",
    "coverage_90": "Share of test rows inside their central 90 % interval.",
    "calibration_error": "Distance of predictions from calibrated ones; 0 is best.",
    "test_log_predictive_density": "Mean log predictive density of a test row; larger is better.",
    "test_accuracy": "Share of test rows that are predicted correctly.",
    "test_calibration_error": "Mean difference of predicted probabilities and observed shares; 0 is best.",
    "test_images": "Number of test images that are measured.",
    "test_sentences": "Number of test sentences that are measured.",
    "test_draws": "Latent draws for each test data point.",
    "test_neg_log_lik": "-log p(x) of a test data point in nats, by importance weighting; smaller is better.",
    "test_neg_log_lik_by_q": "The same from draws of q alone, which is a looser bound.",
    "test_perplexity": "Perplexity per word on test sentences; smaller is better.",
    "unigram_perplexity": "Perplexity of a model of single words, for comparison.",
    "mixing_share": "Share of the posterior variance that comes from the mixing; 0 for a Gaussian.",
    "rate": "KL divergence of the posterior of z from its prior in nats, the mean over data; 0 if z is not used.",
    "active_units": "Number of dimensions of z whose posterior mean varies between data, with a variance above 0.01.",
    "seed": "Seed of the random numbers.",
    "status": "How training ended.",
    "steps": "Training steps.",
    "skipped_steps": "Steps without an update, because a gradient was not finite.",
    "seconds": "Wall time of compiling and training.",
    "compile_seconds": "Of these, seconds of compiling.",
    "seconds_per_step": "Seconds of a training step.",
}


def meaning_of(measure: str) -> str:
    """What a measure means; empty if it is not known."""
    return MEANINGS.get(measure, "")
