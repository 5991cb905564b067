"""AWS Budgets in CloudFormation.

AWS                                                        ministack
a template may have an AWS::Budgets::Budget                its API knows budgets, its CloudFormation does not

Still different: nothing is billed, so a budget is never spent. A test publishes what AWS Budgets would.
"""

# ruff: noqa: SLF001 # an addition reaches into ministack

import json
from collections.abc import Mapping
from typing import Any, Final

from ministack.services import budgets
from ministack.services.cloudformation import provisioners

TYPE: Final = "AWS::Budgets::Budget"


def apply() -> None:
    """Put the addition in place."""
    provisioners._RESOURCE_HANDLERS[TYPE] = {"create": create, "delete": delete}


def create(logical_id: str, properties: Mapping[str, Any], stack_name: str) -> tuple[str, dict[str, Any]]:
    """Make a budget, and return its name."""
    name = provisioners._physical_name(stack_name, logical_id, max_len=100)
    given = json.loads(json.dumps(properties))
    given["Budget"]["BudgetName"] = name
    given["Budget"]["BudgetLimit"]["Amount"] = str(given["Budget"]["BudgetLimit"]["Amount"])
    status, _, said = budgets._create_budget(given)
    if status >= 400:  # noqa: PLR2004 # HTTP
        raise ValueError(f"{TYPE}: {json.loads(said).get('message')}")
    return name, {}


def delete(physical_id: str, _properties: Mapping[str, Any]) -> None:
    """Remove a budget."""
    budgets._delete_budget({"BudgetName": physical_id})
