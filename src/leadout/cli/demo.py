"""`leadout demo`."""
def demo() -> None:
    """Demo."""
