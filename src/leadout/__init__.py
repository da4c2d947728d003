"""Run language models faster without changing what they say: lossless speculative decoding for local models."""

__version__ = "0.1.0"
