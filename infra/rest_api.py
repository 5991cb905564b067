"""The REST API: its routes, who may call them, and what it refuses before it calls a function."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.acknowledge import acknowledge
from infra.gateway_refusals import answer_with_problems
from infra.gather_function import LOG_RETENTION, GatherFunction
from infra.search_queries import search_queries

_VERSION: Final = "v1"
_REQUESTS_PER_S: Final = 20
_BURST: Final = 40
"""For a hundred callers who ask every 5 seconds. Step Functions would throttle more."""

_LIST_SCHEMA: Final[Mapping[str, Any]] = {
    "$schema": "http://json-schema.org/draft-04/schema#",
    "type": "object",
    "required": ["sha256", "suffix", "nbytes"],
    "properties": {
        "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "suffix": {"type": "string", "pattern": r"^[a-z0-9]{1,12}(\.[a-z0-9]{1,7})?$"},
        "nbytes": {"type": "integer", "minimum": 1},
    },
}

_ACCESS_LOG: Final = {
    "time": "$context.requestTime",
    "request": "$context.requestId",
    "caller": "$context.identity.userArn",
    "method": "$context.httpMethod",
    "path": "$context.path",
    "status": "$context.status",
    "ms": "$context.responseLatency",
    "error": "$context.error.responseType",  # a fixed word; a message may have quotes and line feeds
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Route:
    method: str
    path: str
    function: GatherFunction
    body: apigateway.IModel | None = None
    query: tuple[str, ...] = ()


def _search_routes(search: GatherFunction) -> tuple[_Route, ...]:
    """Return ``/area``, ``/scenes``, and a STAC API."""
    found = [
        _Route(method="GET", path=path, function=search, query=query)
        for path, query in search_queries().items()
    ]
    return (*found, _Route(method="POST", path="search", function=search))


class Api(Construct):
    """The API, its stage and its access log."""

    def __init__(  # noqa: PLR0913 # what it connects, each by its name
        self,
        scope: Construct,
        construct_id: str,
        *,
        submit: GatherFunction,
        status: GatherFunction,
        dry_run: GatherFunction,
        search: GatherFunction,
        rank: GatherFunction,
        request_model_schema: Mapping[str, Any],
        log_role: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        self.rest_api = self._rest_api(log_role=log_role)
        answer_with_problems(self.rest_api)
        self._validator = self.rest_api.add_request_validator(
            "Validator", validate_request_body=True, validate_request_parameters=True
        )
        request = self._model("GatherRequest", request_model_schema)
        source_list = self._model("SourceList", _LIST_SCHEMA)
        for route in (
            _Route(method="POST", path="gathers", function=submit, body=request, query=("force",)),
            _Route(method="GET", path="gathers", function=status, query=("limit", "token", "state")),
            _Route(method="GET", path="gathers/{id}", function=status),
            _Route(method="DELETE", path="gathers/{id}", function=status),
            _Route(method="POST", path="gathers/{id}/redrive", function=status),
            _Route(method="POST", path="plans", function=dry_run, body=request),
            _Route(method="POST", path="rankings", function=rank),
            _Route(method="GET", path="rankings", function=rank, query=("limit", "token", "state")),
            _Route(method="GET", path="rankings/{id}", function=rank),
            _Route(method="DELETE", path="rankings/{id}", function=rank),
            _Route(method="POST", path="rankings/{id}/redrive", function=rank),
            _Route(method="POST", path="lists", function=submit, body=source_list),
            _Route(method="GET", path="openapi.json", function=status),
            *_search_routes(search),
        ):
            self._add(route)
        self._acknowledge(log_role=log_role)

    def _rest_api(self, *, log_role: bool) -> apigateway.RestApi:
        log = logs.LogGroup(self, "Log", retention=LOG_RETENTION, removal_policy=RemovalPolicy.DESTROY)
        api = apigateway.RestApi(
            self,
            "RestApi",
            rest_api_name=Stack.of(self).stack_name,
            description="Pixel Gather: plan, submit and watch gathers",
            endpoint_types=[apigateway.EndpointType.REGIONAL],
            cloud_watch_role=log_role,
            deploy_options=apigateway.StageOptions(
                stage_name=_VERSION,
                throttling_rate_limit=_REQUESTS_PER_S,
                throttling_burst_limit=_BURST,
                logging_level=apigateway.MethodLoggingLevel.ERROR,
                access_log_destination=apigateway.LogGroupLogDestination(log),
                access_log_format=apigateway.AccessLogFormat.custom(json.dumps(_ACCESS_LOG)),
            ),
        )
        api.node.try_remove_child("Endpoint")  # CDK's own output; the stack has another
        return api

    def _model(self, name: str, schema: Mapping[str, Any]) -> apigateway.IModel:
        """Describe a body by a plain JSON Schema. `apigateway.Model` does not take one."""
        model = apigateway.CfnModel(
            self,
            name,
            rest_api_id=self.rest_api.rest_api_id,
            name=name,
            content_type="application/json",
            schema=schema,
        )
        deployment = self.rest_api.latest_deployment
        assert deployment is not None  # noqa: S101 # the API deploys itself
        deployment.add_to_logical_id(schema)  # so that a changed model is deployed to the stage
        return apigateway.Model.from_model_name(self, f"{name}Reference", model.ref)

    def _add(self, route: _Route) -> None:
        self.rest_api.root.resource_for_path(route.path).add_method(
            route.method,
            apigateway.LambdaIntegration(route.function.function, allow_test_invoke=False),
            authorization_type=apigateway.AuthorizationType.IAM,
            request_validator=self._validator,
            request_models=None if route.body is None else {"application/json": route.body},
            request_parameters={f"method.request.querystring.{name}": False for name in route.query},
        )

    def _acknowledge(self, *, log_role: bool) -> None:
        acknowledge(
            self.rest_api,
            "APIG3",
            "callers need a signature and are throttled; add a WAF before opening the API to others",
        )
        acknowledge(self.rest_api, "COG4", "callers are AWS principals: IAM signs and decides")
        if log_role:
            acknowledge(
                self.rest_api,
                "IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/"
                "AmazonAPIGatewayPushToCloudWatchLogs]",
                "the role is the account's, for all of its APIs; AWS documents this policy for it",
            )
