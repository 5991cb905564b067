"""The errors of which operators get no notice. It needs no CDK."""

from typing import Final

REFUSALS: Final = ("RequestError", "BudgetError", "ArrayExistsError")
"""The errors with which the state machine ends a gather that its plan refused."""
