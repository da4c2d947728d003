"""Models over HTTP, for many at once: batching, the OpenAI interface, limits and keys, metrics and logs."""
