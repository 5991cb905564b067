"""The REST API: its routes, who may call them, and what it refuses before it calls a function."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_logs as logs
from constructs import Construct

from handlers.api.route import JSON, Route
from handlers.openapi.routes import ROUTES
from infra.gateway_refusals import answer_with_problems
from infra.grant import acknowledge
from infra.lambda_function import GatherFunction

_VERSION: Final = "v1"
_REQUESTS_PER_S: Final = 20
_BURST: Final = 40
"""For a hundred callers who ask every 5 seconds. Step Functions would throttle more."""

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


class Api(Construct):
    """The API, its stage and its access log."""

    def __init__(  # what it connects, each by its name
        self,
        scope: Construct,
        construct_id: str,
        *,
        functions: Iterable[GatherFunction],
        body_schemas: Mapping[str, Mapping[str, Any]],
        log_role: bool,
    ) -> None:
        """Build the API.

        The schemas, JSON Schema draft 4, are those of the bodies that the API checks, by name.
        """
        super().__init__(scope, construct_id)
        self.rest_api = self._rest_api(log_role=log_role)
        answer_with_problems(self.rest_api)
        self._validator = self.rest_api.add_request_validator(
            "Validator", validate_request_body=True, validate_request_parameters=True
        )
        self._models = {name: self._model(name, schema) for name, schema in body_schemas.items()}
        self._functions = {each.module: each for each in functions}
        for route in ROUTES:
            self._add(route)
        self._acknowledge(log_role=log_role)

    def _rest_api(self, *, log_role: bool) -> apigateway.RestApi:
        log = logs.LogGroup(self, "Log", removal_policy=RemovalPolicy.DESTROY)
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
            content_type=JSON,
            schema=schema,
        )
        deployment = self.rest_api.latest_deployment
        assert deployment is not None  # noqa: S101 # the API deploys itself
        deployment.add_to_logical_id(schema)  # so that a changed model is deployed to the stage
        return apigateway.Model.from_model_name(self, f"{name}Reference", model.ref)

    def _add(self, route: Route) -> None:
        function = self._functions[route.function].function
        model = None if route.body is None else self._models.get(route.body)
        self.rest_api.root.resource_for_path(route.path.strip("/")).add_method(
            route.method,
            apigateway.LambdaIntegration(function, allow_test_invoke=False),
            authorization_type=apigateway.AuthorizationType.IAM,
            request_validator=self._validator,
            request_models=None if model is None else {JSON: model},
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
