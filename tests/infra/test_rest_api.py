"""The API: who may call which method, what is checked, and the answers of API Gateway itself."""

import json
import re
from typing import Any

import pytest

from support.synthesized import BODY_SCHEMAS, VARIANTS, Synthesized, synthesized

ROUTES = {
    "POST /gathers": "submit",
    "GET /gathers": "status",
    "GET /gathers/{id}": "status",
    "DELETE /gathers/{id}": "status",
    "POST /gathers/{id}/redrive": "status",
    "POST /gathers/{id}/limit": "status",
    "POST /plans": "dry_run",
    "POST /rankings": "rank",
    "GET /series": "answer_tables",
    "POST /series": "answer_tables",
    "GET /drill": "answer_tables",
    "POST /tables": "answer_tables",
    "POST /tables/plan": "answer_tables",
    "GET /tables": "answer_tables",
    "GET /tables/{id}": "answer_tables",
    "DELETE /tables/{id}": "answer_tables",
    "POST /tables/{id}/redrive": "answer_tables",
    "POST /tables/{id}/limit": "answer_tables",
    "POST /lists": "submit",
    "GET /openapi.json": "status",
    "GET ": "answer_searches",
    "GET /area": "answer_searches",
    "GET /scenes": "answer_searches",
    "GET /search": "answer_searches",
    "POST /search": "answer_searches",
    "GET /conformance": "answer_searches",
    "GET /collections": "answer_searches",
    "GET /collections/{name}": "answer_searches",
    "GET /collections/{name}/items": "answer_searches",
    "GET /collections/{name}/items/{item}": "answer_searches",
}


@pytest.fixture(scope="module")
def without_log_role() -> Synthesized:
    """A stack that does not set the account's role for logs."""
    return synthesized(**VARIANTS["without sources"])


def methods(stack: Synthesized) -> dict[str, dict[str, Any]]:
    """Return the API's methods by verb and path."""
    return {
        f"{each['HttpMethod']} {path_of(stack, each['ResourceId'])}": each
        for each in stack.properties("AWS::ApiGateway::Method")
    }


def path_of(stack: Synthesized, resource: dict[str, Any]) -> str:
    """Return the path of a resource of the API."""
    if "Ref" not in resource:
        return ""
    properties = stack.template["Resources"][resource["Ref"]]["Properties"]
    return f"{path_of(stack, properties['ParentId'])}/{properties['PathPart']}"


def test_routes_lead_to_their_functions(stack: Synthesized) -> None:
    """The API has exactly these routes, and each leads to one function."""
    found = {
        name: stack.show(each["Integration"]["Uri"]).rpartition("functions/")[2].removesuffix("/invocations")
        for name, each in methods(stack).items()
    }

    assert found == {name: f"<{function}>" for name, function in ROUTES.items()}
    assert {each["Integration"]["Type"] for each in methods(stack).values()} == {"AWS_PROXY"}


def test_every_method_asks_for_a_signature(stack: Synthesized) -> None:
    """Every method needs IAM, also the one of the description."""
    assert {each["AuthorizationType"] for each in methods(stack).values()} == {"AWS_IAM"}


def test_api_may_invoke_what_its_routes_name_and_no_more(stack: Synthesized) -> None:
    """API Gateway may invoke each function only for its own methods."""
    every = stack.properties("AWS::Lambda::Permission")
    permissions = [each for each in every if each["Principal"] == "apigateway.amazonaws.com"]
    found = {
        (stack.show(each["FunctionName"]), stack.show(each["SourceArn"]).partition("<stage>/")[2])
        for each in permissions
    }

    rest = [
        (each["Principal"], stack.show(each["FunctionName"])) for each in every if each not in permissions
    ]
    assert rest == [("events.amazonaws.com", "<watch>")]
    assert found == {
        (f"<{function}>", re.sub(r"\{\w+\}", "*", name.replace(" ", "" if "/" in name else "/")))
        for name, function in ROUTES.items()
    }


def test_bodies_are_checked_before_a_function_runs(stack: Synthesized) -> None:
    """Bodies are checked by their schemas, and parameters are checked, too."""
    models = {each["Name"]: each["Schema"] for each in stack.properties("AWS::ApiGateway::Model")}
    names = {id_: each["Properties"]["Name"] for id_, each in stack.of("AWS::ApiGateway::Model").items()}
    checked = {
        name: names[each["RequestModels"]["application/json"]["Ref"]]
        for name, each in methods(stack).items()
        if "RequestModels" in each
    }
    (validator,) = stack.properties("AWS::ApiGateway::RequestValidator")

    assert checked == {
        "POST /gathers": "GatherRequest",
        "POST /plans": "GatherRequest",
        "POST /lists": "List",
    }
    assert models == BODY_SCHEMAS
    assert validator["ValidateRequestBody"] is True
    assert validator["ValidateRequestParameters"] is True
    assert all("RequestValidatorId" in each for each in methods(stack).values())


def test_parameters_are_declared_and_none_is_required(stack: Synthesized) -> None:
    """API Gateway passes on what the table of routes names."""
    found = methods(stack)

    assert found["POST /gathers"]["RequestParameters"] == {"method.request.querystring.force": False}
    assert found["GET /tables"]["RequestParameters"].keys() == {
        f"method.request.querystring.{name}" for name in ("limit", "token", "state")
    }
    assert not found["GET /gathers/{id}"].get("RequestParameters")


@pytest.mark.long
def test_api_is_deployed_again_when_a_schema_changes(stack: Synthesized) -> None:
    """A changed schema makes a new deployment. Otherwise the stage would serve the old one."""
    (before,) = stack.of("AWS::ApiGateway::Deployment")
    changed = {**BODY_SCHEMAS, "GatherRequest": {"type": "object"}}
    (after,) = synthesized(body_schemas=changed).of("AWS::ApiGateway::Deployment")

    assert before != after


def rendered(template: str) -> str:
    """Return a gateway response as API Gateway renders it, with variables inserted without escaping."""
    message = 'it should have been\n"GET\n/v1"'
    variables = {
        "$context.error.messageString": " " + json.dumps(message),
        "$context.error.message": message,
        "$context.error.validationErrorString": '[object has missing required properties (["window"])]',
        "$context.requestId": "c6af9ac6-7b61-11e6-9a41-93e8deadbeef",
    }
    return re.sub(r"\$context(\.\w+)+", lambda found: variables[found[0]], template)


def test_what_api_gateway_refuses_is_a_problem_too(stack: Synthesized) -> None:
    """Every answer of API Gateway itself is RFC 9457, with a stable type and a sentence."""
    answers = {each["ResponseType"]: each for each in stack.properties("AWS::ApiGateway::GatewayResponse")}

    assert {"DEFAULT_4XX", "DEFAULT_5XX", "BAD_REQUEST_BODY", "THROTTLED"} <= answers.keys()
    for answer in answers.values():
        ((media_type, template),) = answer["ResponseTemplates"].items()
        problem = json.loads(rendered(template))
        assert media_type == "application/problem+json"
        assert problem.keys() >= {"type", "title", "detail"}
        assert problem["type"].startswith("urn:pixel-gather:problem:")
        assert problem.get("status") == (int(answer["StatusCode"]) if "StatusCode" in answer else None)
        assert "$" not in problem["detail"]


def test_what_api_gateway_refuses_has_the_status_that_callers_go_by(stack: Synthesized) -> None:
    """The two defaults keep the status that API Gateway chooses."""
    answers = stack.properties("AWS::ApiGateway::GatewayResponse")

    assert {each["ResponseType"]: each.get("StatusCode") for each in answers} == {
        "BAD_REQUEST_BODY": "400",
        "BAD_REQUEST_PARAMETERS": "400",
        "ACCESS_DENIED": "403",
        "MISSING_AUTHENTICATION_TOKEN": "403",
        "THROTTLED": "429",
        "INTEGRATION_TIMEOUT": "504",
        "DEFAULT_4XX": None,
        "DEFAULT_5XX": None,
    }


def test_too_many_requests_are_told_when_to_try_again(stack: Synthesized) -> None:
    """The stage's burst is of two seconds, and so is the pause."""
    (answer,) = (
        each
        for each in stack.properties("AWS::ApiGateway::GatewayResponse")
        if each["ResponseType"] == "THROTTLED"
    )

    assert answer["StatusCode"] == "429"
    assert answer["ResponseParameters"] == {"gatewayresponse.header.Retry-After": "'2'"}


def test_stage_is_throttled_and_logged(stack: Synthesized) -> None:
    """All methods share one rate. The access log has the callers, and another log has the errors."""
    (stage,) = stack.properties("AWS::ApiGateway::Stage")
    (setting,) = stage["MethodSettings"]

    assert (setting["HttpMethod"], setting["ResourcePath"]) == ("*", "/*")
    assert (setting["ThrottlingRateLimit"], setting["ThrottlingBurstLimit"]) == (20, 40)
    assert setting["LoggingLevel"] == "ERROR"
    assert setting["DataTraceEnabled"] is False
    logged = json.loads(stage["AccessLogSetting"]["Format"])
    assert logged["caller"] == "$context.identity.userArn"
    # API Gateway escapes nothing: a message with a quote or a line feed would make the line no JSON
    assert "$context.error.message" not in logged.values()
    assert logged["error"] == "$context.error.responseType"


@pytest.mark.long
def test_accounts_log_role_is_set_unless_the_account_has_one(
    stack: Synthesized, without_log_role: Synthesized
) -> None:
    """All APIs of the account share the role. It outlives the stack, and can be left unchanged."""
    (account,) = stack.of("AWS::ApiGateway::Account").values()

    assert account["DeletionPolicy"] == "Retain"
    assert not without_log_role.of("AWS::ApiGateway::Account")
