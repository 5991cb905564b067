"""The routes of gathers, their plans and their lists."""

from functools import partial
from typing import Final

from handlers.api.route import FLAG, LIMIT_QUERY, Answer, Parameter, Route, list_query

_submit = partial(Route, function="gather.submit")
_status = partial(Route, function="gather.status")
"""Routes by the functions that answer them."""

ROUTES: Final = (
    _submit(
        method="POST",
        path="/gathers",
        name="submitGather",
        summary="Start a gather, or find the one that the same request has started.",
        body="GatherRequest",
        query={"force": Parameter("Gather anew, into another cube.", FLAG)},
        answers={202: Answer("Started.", "Submitted"), 200: Answer("Started before.", "Submitted")},
        problems=(400, 422, 429),
    ),
    _status(
        method="GET",
        path="/gathers",
        name="listGathers",
        summary="List gathers, the latest first.",
        query=list_query("Gathers"),
        answers={200: Answer("One page.", "Gathers")},
        problems=(422, 429),
    ),
    _status(
        method="GET",
        path="/gathers/{id}",
        name="getGather",
        summary="Describe a gather: state, progress, dollars, links to cube and report.",
        answers={200: Answer("As it is now.", "Status")},
        problems=(404, 429),
    ),
    _status(
        method="DELETE",
        path="/gathers/{id}",
        name="stopGather",
        summary="Cancel a gather for good; what it has committed is kept, for the same request.",
        answers={200: Answer("It has ended.", "Gather")},
        problems=(404, 429),
    ),
    _status(
        method="POST",
        path="/gathers/{id}/redrive",
        name="redriveGather",
        summary="Run again the parts that failed in a gather that has ended.",
        answers={202: Answer("Running.", "Gather")},
        problems=(404, 409, 429),
    ),
    _status(
        method="POST",
        path="/gathers/{id}/limit",
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
    _submit(
        method="POST",
        path="/lists",
        name="keepList",
        summary="Ask where to upload a list of sources. The list is named by its content.",
        body="List",
        answers={
            200: Answer("The list's href, and where to PUT the list if it is not there yet.", "ListPlace")
        },
        problems=(400, 422),
    ),
    _status(
        method="GET",
        path="/openapi.json",
        name="getOpenapi",
        summary="This document.",
        answers={200: Answer("OpenAPI 3.1.", "Document")},
    ),
)
