"""The engine: one request's way from prompt to events, round by round."""
