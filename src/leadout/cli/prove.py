"""`leadout prove`."""
def prove() -> None:
    """Prove."""
