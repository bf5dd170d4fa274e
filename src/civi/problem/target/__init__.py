"""Targets: the log densities log p(x, z) to approximate."""

from civi.problem.target.base import (
    BatchedTarget,
    LogDensity,
    SampledTarget,
    Target,
    batch_of,
    check_batch,
    check_shape,
    check_values,
    log_prob_each,
)
from civi.problem.target.bayesian_network import BayesianNetwork
from civi.problem.target.diffusion import ConditionedDiffusion
from civi.problem.target.frame import CurvedFrame, Frame, LowRankFrame
from civi.problem.target.framed import Framed, in_double_precision, inward, log_volume, outward, unframed
from civi.problem.target.marginal_network import MarginalNetwork
from civi.problem.target.regression import LogisticRegression
from civi.problem.target.toy import (
    Banana,
    GaussianMixture,
    StudentProduct,
    banana,
    eight_gaussians,
    star,
    student,
    two_modal,
)

__all__ = [
    "Banana",
    "BatchedTarget",
    "BayesianNetwork",
    "ConditionedDiffusion",
    "CurvedFrame",
    "Frame",
    "Framed",
    "GaussianMixture",
    "LogDensity",
    "LogisticRegression",
    "LowRankFrame",
    "MarginalNetwork",
    "SampledTarget",
    "StudentProduct",
    "Target",
    "banana",
    "batch_of",
    "check_batch",
    "check_shape",
    "check_values",
    "eight_gaussians",
    "in_double_precision",
    "inward",
    "log_prob_each",
    "log_volume",
    "outward",
    "star",
    "student",
    "two_modal",
    "unframed",
]
