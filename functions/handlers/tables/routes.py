"""The routes of tables: those of points and zones, and large rankings."""

from typing import Final

from handlers.api.route import Answer, Route, list_query

_TABLES: Final = "tables.answer_tables"

ROUTES: Final = (
    Route(
        method="POST",
        path="/tables",
        function=_TABLES,
        name="makeTable",
        summary="Start a table of points or zones, or find the one that the same request has started.",
        body="TableRequest",
        answers={
            202: Answer("Started, or running.", "TableStarted"),
            200: Answer("Made before.", "TableStatus"),
        },
        problems=(400, 422, 429, 503, 504),
    ),
    Route(
        method="POST",
        path="/tables/plan",
        function=_TABLES,
        name="planTable",
        summary="Price a table of points or zones, reading some headers and no pixel.",
        body="TableRequest",
        answers={200: Answer("The plan.", "TablePlan")},
        problems=(400, 422, 503, 504),
    ),
    Route(
        method="GET",
        path="/tables",
        function=_TABLES,
        name="listTables",
        summary="List tables and large rankings, the latest first.",
        query=list_query("Tables"),
        answers={200: Answer("One page.", "Tables")},
        problems=(422, 429),
    ),
    Route(
        method="GET",
        path="/tables/{id}",
        function=_TABLES,
        name="getTable",
        summary="Progress of a table or large ranking; at the end where it is.",
        answers={200: Answer("As it is now.", "TableStatus")},
        problems=(404, 429, 503, 504),
    ),
    Route(
        method="DELETE",
        path="/tables/{id}",
        function=_TABLES,
        name="stopTable",
        summary="Stop a table or large ranking; what it has read is kept.",
        answers={200: Answer("It has ended.", "TableLine")},
        problems=(404, 429),
    ),
    Route(
        method="POST",
        path="/tables/{id}/redrive",
        function=_TABLES,
        name="redriveTable",
        summary="Go on with a table or large ranking that failed, timed out or was stopped.",
        answers={202: Answer("Running.", "TableLine")},
        problems=(404, 409, 429),
    ),
)
