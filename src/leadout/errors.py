"""Every error a user can meet, in one tree.

A message says what was wrong, the value seen, what is allowed and the next step. Errors of other libraries
are turned into these at the border, with ``from``.
"""


class LeadoutError(Exception):
    """Base of all errors that leadout raises on purpose."""


class InputError(LeadoutError, ValueError):
    """A request, option or parameter that cannot be honoured as given."""


class PromptTooLongError(InputError):
    """The prompt leaves no room for a single new token in the model's context."""


class ModelFileError(LeadoutError):
    """A model file that is missing, damaged, incomplete or of another kind."""


class StoreError(LeadoutError):
    """A model name that cannot be turned into a file: unknown, unreachable, no space, wrong hash."""


class ProviderError(LeadoutError):
    """A backend library that is not installed, does not fit this CPU or does not know the model."""


class VocabularyError(LeadoutError):
    """A draft model whose vocabulary cannot draft for the target's."""


class RollbackError(LeadoutError):
    """A cache that could not be cut back to the committed prefix."""


class BackendError(LeadoutError):
    """A forward pass that failed, or an id that does not belong to the model."""


class BusyError(LeadoutError):
    """More requests than can wait; nothing of this one was begun.

    Attributes
    ----------
    retry_after_s : float
        Seconds after which trying again is worth it.
    """

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ClosingError(BusyError):
    """A server that is shutting down; another one, or a later one, may serve the request."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__("the server is shutting down; ask again later", retry_after_s)


class ServerError(LeadoutError):
    """An engine's server that cannot be reached, broke off, or answers with something else than its API."""


class ServerRefusedError(ServerError):
    """A server that refused a request, with its HTTP status.

    Parameters
    ----------
    text : str
    status : int
        Of the answer, 400..499.
    """

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status
