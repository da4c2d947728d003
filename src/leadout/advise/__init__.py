"""Which draft for which target, whether it will pay, and why: before anything is loaded, and measured."""
