"""Benchmarks of speed: ratios measured within one process. Tests never assert them."""
