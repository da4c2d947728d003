"""What doubles raise when whoever uses them breaks a seam's promise."""


class BrokenPromise(BaseException):
    """A seam's promise was broken; not an Exception, so that nothing that survives failures hides it."""
