"""Settings of text autoencoders on the validation split of Penn Treebank, with another seed than reported runs.

    python benchmarks/text_validation.py --steps 750 --set family.latent_input=none
    python benchmarks/text_validation.py --steps 750 --set family.latent_input=both --set problem.warm_up=750

Prints the measures of a fixed random part of the validation sentences.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from civi.experiment.data.text import TextData, penn_treebank
from civi.experiment.plan import Plan
from civi.experiment.tasks import find_task
from civi.experiment.training import posterior_of
from civi.problem import make_problem
from civi.solver import train

SHOWN = ("neg_elbo", "test_neg_log_lik", "test_perplexity", "rate", "active_units", "mixing_share")


def validation() -> TextData:
    """The text with the validation split in place of the test split."""
    text = penn_treebank()
    return text._replace(test=text.valid)


def main() -> None:
    """Train, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=750)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--solver", default="civi")
    parser.add_argument("--sentences", type=int, default=512)
    parser.add_argument("--draws", type=int, default=16)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    text = validation()
    sizes = {"quick_sentences": options.sentences, "quick_draws": options.draws}
    task = replace(find_task("ptb"), load=lambda: text, **sizes)  # type: ignore[call-arg]
    plan = Plan.make(task, options.solver, "default", options.seed, options.steps, options.set)
    family_key, train_key, *keys = plan.keys(options.seed)
    clock = time.process_time()
    problem = make_problem(plan.settings.family, plan.source(), family_key, plan.settings.problem)
    trained = train(plan.settings.solver, problem, train_key)
    measures = task.evaluate(posterior_of(trained.problem), keys, "quick").measures
    print(f"{trained.message}, {time.process_time() - clock:.0f} CPU seconds, {' '.join(options.set)}")
    print(", ".join(f"{name} {measures[name]:.4g}" for name in SHOWN))


if __name__ == "__main__":
    main()
