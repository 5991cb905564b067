"""The routes of gathers, their plans and their lists."""

from typing import Final

from handlers.api.route import FLAG, LIMIT_QUERY, Answer, Parameter, Route, list_query

_SUBMIT: Final = "gather.submit"
_STATUS: Final = "gather.status"

ROUTES: Final = (
    Route(
        method="POST",
        path="/gathers",
        function=_SUBMIT,
        name="submitGather",
        summary="Start a gather, or find the one that the same request has started.",
        body="GatherRequest",
        query={"force": Parameter("Gather anew, into another cube.", FLAG)},
        answers={202: Answer("Started.", "Submitted"), 200: Answer("Started before.", "Submitted")},
        problems=(400, 422, 429),
    ),
    Route(
        method="GET",
        path="/gathers",
        function=_STATUS,
        name="listGathers",
        summary="List gathers, the latest first.",
        query=list_query("Gathers"),
        answers={200: Answer("One page.", "Gathers")},
        problems=(422, 429),
    ),
    Route(
        method="GET",
        path="/gathers/{id}",
        function=_STATUS,
        name="getGather",
        summary="Describe a gather: state, progress, dollars, links to cube and report.",
        answers={200: Answer("As it is now.", "Status")},
        problems=(404, 429),
    ),
    Route(
        method="DELETE",
        path="/gathers/{id}",
        function=_STATUS,
        name="stopGather",
        summary="Cancel a gather for good; what it has committed is kept, for the same request.",
        answers={200: Answer("It has ended.", "Gather")},
        problems=(404, 429),
    ),
    Route(
        method="POST",
        path="/gathers/{id}/redrive",
        function=_STATUS,
        name="redriveGather",
        summary="Run again the parts that failed in a gather that has ended.",
        answers={202: Answer("Running.", "Gather")},
        problems=(404, 409, 429),
    ),
    Route(
        method="POST",
        path="/gathers/{id}/limit",
        function=_STATUS,
        name="limitGather",
        summary="Let a running gather have fewer workers, or more, from now on.",
        query=LIMIT_QUERY,
        answers={200: Answer("It runs with so many.", "Gather")},
        problems=(404, 422, 429),
    ),
    Route(
        method="POST",
        path="/plans",
        function="gather.dry_run",
        name="planGather",
        summary="Price a gather, reading a few headers and no pixel.",
        body="GatherRequest",
        answers={200: Answer("The plan.", "Plan")},
        problems=(400, 422, 503, 504),
    ),
    Route(
        method="POST",
        path="/lists",
        function=_SUBMIT,
        name="keepList",
        summary="Ask where to upload a list of sources. The list is named by its content.",
        body="List",
        answers={
            200: Answer("The list's href, and where to PUT the list if it is not there yet.", "ListPlace")
        },
        problems=(400, 422),
    ),
    Route(
        method="GET",
        path="/openapi.json",
        function=_STATUS,
        name="getOpenapi",
        summary="This document.",
        answers={200: Answer("OpenAPI 3.1.", "Document")},
    ),
)
