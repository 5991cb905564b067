"""The routes of rankings."""

from typing import Final

from handlers.api.route import Answer, Parameter, Route, list_query

_RANK: Final = "rank.rank"

ROUTES: Final = (
    Route(
        method="POST",
        path="/rankings",
        function=_RANK,
        name="rankScenes",
        summary="Rank scenes: at once, or as a large ranking if that would take over 20 s.",
        body="RankingRequest",
        headers={"Prefer": Parameter("respond-async asks for a large ranking, however small it is.")},
        answers={
            200: Answer("The ranking.", "Ranking"),
            202: Answer("A large ranking has started, or is running.", "RankingStarted"),
        },
        problems=(400, 422, 429, 503, 504),
    ),
    Route(
        method="GET",
        path="/rankings",
        function=_RANK,
        name="listRankings",
        summary="List large rankings, the latest first.",
        query=list_query("Rankings"),
        answers={200: Answer("One page.", "Rankings")},
        problems=(422, 429),
    ),
    Route(
        method="GET",
        path="/rankings/{id}",
        function=_RANK,
        name="getRanking",
        summary="Progress of a large ranking; at the end its table.",
        answers={200: Answer("The large ranking.", "RankingStatus")},
        problems=(404, 429, 503, 504),
    ),
    Route(
        method="DELETE",
        path="/rankings/{id}",
        function=_RANK,
        name="stopRanking",
        summary="Stop a large ranking; what it has read is kept.",
        answers={200: Answer("It has ended.", "RankingLine")},
        problems=(404, 429),
    ),
    Route(
        method="POST",
        path="/rankings/{id}/redrive",
        function=_RANK,
        name="redriveRanking",
        summary="Go on with a large ranking that failed, timed out or was stopped.",
        answers={202: Answer("Running.", "RankingLine")},
        problems=(404, 409, 429),
    ),
)
