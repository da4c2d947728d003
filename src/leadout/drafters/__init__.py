"""Drafters: cheap guesses of what the target will say next."""
