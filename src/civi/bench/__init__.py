"""Benchmarks: ratios measured in one process, never asserted in a test."""
