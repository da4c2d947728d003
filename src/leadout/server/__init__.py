"""Serves an engine to many at once, over HTTP."""
