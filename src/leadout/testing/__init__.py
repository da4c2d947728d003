"""Doubles whose answers can be computed by hand, and tiny real model files, for your tests and ours."""
