"""What is raised for a problem that no kernel accepts."""


class InvalidProblem(ValueError):
    """A problem that no kernel accepts. `field` is the name of the field that is wrong."""

    def __init__(self, field: str, given: object, accepted: str, remedy: str = "") -> None:
        self.field = field
        self.reason = f"{accepted}.{' ' + remedy if remedy else ''}"
        """What is accepted, and what to do."""
        super().__init__(f"{field}={given!r} is not accepted: {self.reason}")

    @classmethod
    def from_message(cls, field: str, message: str) -> "InvalidProblem":
        """The same failure in another process, from its field and its whole message."""
        error = cls(field, None, "")
        error.args = (message,)
        return error
