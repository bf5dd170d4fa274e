"""Problems, the objectives to minimise: E_nu[ f_nu( E_omega[ g_omega(theta) ] ) ].

PosteriorProblem      one posterior: a semi-implicit family and a target (`civi.problem.target`)
AutoencoderProblem    one posterior per datum: encoder, decoder and data
OracleProblem         two oracles written by the user (`civi.compositional`)
"""

from civi.problem.architecture import ImageArchitecture, ProblemSettings, TextArchitecture, make_problem
from civi.problem.autoencoder import AutoencoderProblem
from civi.problem.base import Problem
from civi.problem.oracles import OracleProblem, Oracles
from civi.problem.posterior import PosteriorProblem

__all__ = [
    "AutoencoderProblem",
    "ImageArchitecture",
    "OracleProblem",
    "Oracles",
    "PosteriorProblem",
    "Problem",
    "ProblemSettings",
    "TextArchitecture",
    "make_problem",
]
