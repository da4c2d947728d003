"""The mathematics: values, the sampling law, noise and the verification rules.

Pure: numpy and the standard library; arrays and a random source in, a value out. No clock, no I/O, no log.
"""
