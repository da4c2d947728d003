"""Models over HTTP: the OpenAI interface, limits and keys, metrics and logs. Needs the extra ``serve``."""
