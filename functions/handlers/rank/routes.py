"""The route of rankings. Large ones are tables, whose routes are in `handlers.tables.routes`."""

from typing import Final

from handlers.api.route import Answer, Parameter, Route

ROUTES: Final = (
    Route(
        method="POST",
        path="/rankings",
        function="rank.rank",
        name="rankScenes",
        summary="Rank scenes: at once, or as a large ranking if that would take over 20 s.",
        body="RankingRequest",
        headers={"Prefer": Parameter("respond-async asks for a large ranking, however small it is.")},
        answers={
            200: Answer("The ranking.", "Ranking"),
            202: Answer("A large ranking has started, or is running, as a table.", "TableStarted"),
        },
        problems=(400, 422, 429, 503, 504),
    ),
)
