"""Benchmarks: each prints a table and writes one JSON file with what is needed to repeat it.

Timings are compared as ratios within one run, alternating, with medians and spread; they decide no test.
"""
