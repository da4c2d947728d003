"""Sets up engines that exist, so that they speculate: what to run, with which flags, variables and files.

Each engine is one file with one pure function, from a plan and what is known of the installed version to a
`Setup`; `execute` alone starts anything. Knows nothing of leadout's own engine.
"""
