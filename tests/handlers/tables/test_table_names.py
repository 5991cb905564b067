"""What decides the name of a table in a deployment: the same name is the same table."""

from types import SimpleNamespace
from typing import Any, Final

from handlers.deployment.settings import Settings
from handlers.tables.feature_table import FeatureTable
from handlers.tables.table_body import AdmittedTable, admit_table
from pixel_gather.tables.table_limits import TableLimits
from support.identities import alike, another, check_identity
from support.lambda_functions import ENVIRONMENT

_BODY: Final = {"points": "s3://sources/plots.csv", "sources": ["s3://sources/a.tif"], "by": "b1"}
_ASKED: Final = admit_table(_BODY, Settings.from_environment(ENVIRONMENT))
_OTHER_KIND: Final = admit_table(_BODY | {"square": 3}, Settings.from_environment(ENVIRONMENT))
_OTHER_VALUES: Final = admit_table(_BODY | {"by": "b2"}, Settings.from_environment(ENVIRONMENT))


def _named(**parts: Any) -> Any:
    return SimpleNamespace(**parts)


def _opened(asked: AdmittedTable = _ASKED, *, base_etag: str | None = None) -> FeatureTable:
    given: dict[str, Any] = {
        "features": _named(digest="a", columns_digest="a"),
        "table": _named(digest="a", band_numbers={}),
        "work": _named(columns=("b1",)),
    }
    return FeatureTable(
        asked=asked,
        checked=given["features"],
        values=asked.request.values,
        sign="none",
        in_flight=1,
        base_etag=base_etag,
        **given,
    )


def test_a_table_has_the_name_of_all_that_decides_it() -> None:
    """By its list, its features with their columns, and what is computed.

    A signature gives access. What is wrong with features follows from them, and the table that is appended
    to is told by its commit.
    """
    opened = _opened()
    changes = {
        "asked": another(opened, asked=_OTHER_KIND),
        "features": another(opened, features=_named(digest="b", columns_digest="a")),
        "checked": alike(opened, checked=None),
        "table": another(opened, table=_named(digest="b", band_numbers={})),
        "values": another(opened, values=_OTHER_VALUES.request.values),
        "work": another(opened, work=_named(columns=("b1", "count"))),
        "sign": alike(opened, sign="earthdata"),
        "in_flight": alike(opened, in_flight=2),
        "base": alike(opened, base=_named()),
        "base_etag": alike(opened, base_etag="a"),  # nothing is appended
    }

    check_identity(lambda it: it.name, changes, fields=FeatureTable.__struct_fields__)
    others = _named(digest="a", columns_digest="b"), _named(digest="a", band_numbers={"rgb": 2})
    names = {
        opened.name,
        another(opened, features=others[0]).other.name,
        another(opened, table=others[1]).other.name,
    }
    assert len(names) == 3


def test_an_append_has_a_name_for_each_commit_of_its_table() -> None:
    """The features and their columns are those of the table, so other columns are no other append."""
    grows = another(_ASKED, append_to="points-a").other
    opened = _opened(grows, base_etag="a")
    changes = {
        "base_etag": another(opened, base_etag="b"),
        "columns": alike(opened, features=_named(digest="a", columns_digest="b")),
        "ids": another(opened, features=_named(digest="b", columns_digest="a")),
        "append_to": another(opened, asked=another(grows, append_to="points-b").other),
    }

    check_identity(lambda it: it.name, changes, fields=changes)


def test_what_a_request_says_besides_is_no_part_of_the_name() -> None:
    """Limits only refuse a table."""
    changes = {
        "kind": another(_ASKED, kind=_OTHER_KIND.kind),
        "request": another(_ASKED, request=_OTHER_VALUES.request),
        "limits": alike(_ASKED, limits=TableLimits.of({"usd": 1})),
        "append_to": another(_ASKED, append_to="points-a"),
    }

    check_identity(lambda it: _opened(it).name, changes, fields=AdmittedTable.__struct_fields__)
