"""Experiments: tasks, recipes, runs, comparisons, checkpoints, data sets and figures."""
