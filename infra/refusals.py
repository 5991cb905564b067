"""What operators are not told of. It needs no CDK."""

from typing import Final

REFUSALS: Final = ("RequestError", "BudgetError", "ArrayExistsError")
"""The errors with which the state machine ends a gather that its plan refused."""
