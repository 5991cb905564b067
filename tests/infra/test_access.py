"""The complete rights of every role."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.synthesized import WITH_ALL, Synthesized, synthesized

EXECUTIONS = "arn:<partition>:states:<region>:<accountid>:execution:<machine>:*"
CHILDREN = "arn:<partition>:states:<region>:<accountid>:execution:<machine>/Shards:*"
MAP_RUNS = "arn:<partition>:states:<region>:<accountid>:mapRun:<machine>/Shards:*"
STACK = "arn:<partition>:cloudformation:<region>:<accountid>:stack/PixelGather-main/*"
GROUP = "arn:<partition>:scheduler:<region>:<accountid>:schedule-group/PixelGather-main"
LOGS = "arn:<partition>:logs:<region>:<accountid>:log-group"
CATALOG = "arn:<partition>:s3:::catalogs/all/europe"
SCENES = "arn:<partition>:s3:::scenes"


def read(*places: str) -> set[tuple[str, str]]:
    """Return the rights to read objects."""
    return {("s3:GetObject", place) for place in places}


def put(*places: str) -> set[tuple[str, str]]:
    """Return the rights to write objects."""
    return {(f"s3:{action}", place) for action in ("PutObject", "AbortMultipartUpload") for place in places}


OWN_LOG = {("logs:CreateLogStream", "<loggroup>"), ("logs:PutLogEvents", "<loggroup>")}
READ_SOURCES = read(f"{SCENES}/*", "<control>/pace/*") | put("<control>/pace/*")
"""Whoever reads sources shares the requests that their hosts allow."""

LIST_SOURCES = {("s3:ListBucket", SCENES)}
STATISTICS = "<arrays>/cubes/tables/statistics/*"
TABLES = "<arrays>/cubes/tables/*/*.*"
LOG_ACTIONS = (
    "CreateLogDelivery DeleteLogDelivery DescribeLogGroups DescribeResourcePolicies GetLogDelivery "
    "ListLogDeliveries PutResourcePolicy UpdateLogDelivery"
)
TRACE_ACTIONS = "GetSamplingRules GetSamplingTargets PutTelemetryRecords PutTraceSegments"
TO_LOG_AND_TRACE = {(f"logs:{action}", "*") for action in LOG_ACTIONS.split()} | {
    (f"xray:{action}", "*") for action in TRACE_ACTIONS.split()
}


def limit(machine: str) -> set[tuple[str, str]]:
    """Return the rights to change the workers of what runs."""
    runs = MAP_RUNS.replace("machine", machine)
    return {("states:DescribeMapRun", runs), ("states:UpdateMapRun", runs)}


def operate(*actions: str, machine: str = "machine") -> set[tuple[str, str]]:
    """Return the rights to these actions on gathers, or on tables."""
    return {(f"states:{action}", EXECUTIONS.replace("machine", machine)) for action in actions}


def machine_role(machine: str, manifests: str, *functions: str) -> set[tuple[str, str]]:
    """Return the rights of a state machine's role."""
    children = CHILDREN.replace("machine", machine)
    return (
        {("lambda:InvokeFunction", f"<{function}>:*") for function in functions}
        | {("s3:GetObject", manifests), ("states:StartExecution", f"<{machine}>")}
        | operate("DescribeExecution", "RedriveExecution", "StopExecution", machine=machine)
        | {
            (f"states:{action}", children)
            for action in ("DescribeExecution", "RedriveExecution", "StopExecution")
        }
        | TO_LOG_AND_TRACE
    )


def see_children(machine: str) -> set[tuple[str, str]]:
    """Return the rights to see the Map Runs of a state machine, and why their children failed."""
    runs, children = (each.replace("machine", machine) for each in (MAP_RUNS, CHILDREN))
    return limit(machine) | {("states:ListExecutions", runs), ("states:DescribeExecution", children)}


WORKER = (
    OWN_LOG
    | READ_SOURCES
    | read("<control>/samples/*", "<control>/gathers/*", "<control>/cancelled/*", "<arrays>/cubes/*")
    | put("<control>/gathers/*/shards/*", "<arrays>/cubes/*")
)
"""Of a function that fills shards, of either size."""

RIGHTS = {
    "submit": OWN_LOG
    | read("<control>/lists/*")
    | {("states:StartExecution", "<machine>")}
    | put("<control>/lists/*")
    | operate("DescribeExecution"),
    "status": OWN_LOG
    | read("<control>/summaries/*", "<control>/pace/halted.json", "<arrays>/cubes/*.zarr/zarr.json")
    | {("s3:ListBucket", "<arrays> cubes/*")}
    | {("states:ListExecutions", "<machine>")}
    | put("<control>/cancelled/*")
    | see_children("machine")
    | operate("DescribeExecution", "ListMapRuns", "RedriveExecution", "StopExecution"),
    "answer_searches": OWN_LOG
    | {("s3:GetObject", f"{CATALOG}.columns"), ("s3:GetObject", f"{CATALOG}.*.items")},
    "dry_run": OWN_LOG
    | READ_SOURCES
    | LIST_SOURCES
    | read(
        "<control>/samples/*",
        "<control>/lists/*",
        "<arrays>/cubes/*.zarr/headers.parquet",
        "<arrays>/cubes/*.zarr/zarr.json",
        "<arrays>/cubes/*.zarr/rows.parquet",
        "<arrays>/cubes/*.zarr/contributors.parquet",
        "<arrays>/cubes/*.zarr/receipt.json",
        "<arrays>/cubes/*.archive.json",
    )
    | {("s3:ListBucket", "<arrays> cubes/*")},
    "rank": OWN_LOG
    | READ_SOURCES
    | LIST_SOURCES
    | read("<control>/lists/*", "<control>/summaries/*", STATISTICS, TABLES)
    | {("states:StartExecution", "<tables>")}
    | put(STATISTICS)
    | operate("DescribeExecution", machine="tables"),
    "answer_tables": OWN_LOG
    | READ_SOURCES
    | LIST_SOURCES
    | read("<control>/lists/*", "<control>/summaries/*", TABLES)
    | {("states:StartExecution", "<tables>"), ("states:ListExecutions", "<tables>")}
    | see_children("tables")
    | operate("DescribeExecution", "ListMapRuns", "RedriveExecution", "StopExecution", machine="tables"),
    "plan_table": OWN_LOG
    | READ_SOURCES
    | LIST_SOURCES
    | read("<control>/lists/*", "<control>/tables/*", STATISTICS, TABLES)
    | {("s3:ListBucket", "<control> tables/*")}
    | put("<control>/tables/*", "<control>/summaries/*", STATISTICS, TABLES),
    "read_images": OWN_LOG | READ_SOURCES | read("<control>/tables/*") | put("<control>/tables/*/measured/*"),
    "tick": OWN_LOG
    | read(
        "<arrays>/cubes/*.zarr/zarr.json",
        "<arrays>/cubes/*.zarr/time/*",
        "<arrays>/cubes/tables/*/result.json",
    )
    | {
        ("s3:ListBucket", "<arrays> cubes/*"),
        ("states:StartExecution", "<machine>"),
        ("states:StartExecution", "<tables>"),
        ("states:ListExecutions", "<machine>"),
        ("states:ListExecutions", "<tables>"),
        ("sqs:SendMessage", "<queue>"),
    }
    | operate("DescribeExecution")
    | operate("DescribeExecution", machine="tables"),
    "watch": OWN_LOG
    | {
        ("states:ListExecutions", "<machine>"),
        ("states:ListExecutions", "<tables>"),
        ("scheduler:ListSchedules", "*"),
        ("scheduler:GetSchedule", f"{GROUP.replace('schedule-group', 'schedule')}/*"),
    },
    "canary": OWN_LOG
    | {("states:StartExecution", "<machine>")}
    | operate("DescribeExecution")
    | put("<control>/samples/*"),
    "halt": OWN_LOG
    | read("<control>/pace/halted.json")
    | {("states:ListExecutions", "<machine>"), ("states:ListExecutions", "<tables>")}
    | put("<control>/pace/halted.json")
    | limit("machine")
    | limit("tables")
    | operate("DescribeExecution", "ListMapRuns")
    | operate("DescribeExecution", "ListMapRuns", machine="tables"),
    "schedules": {("lambda:InvokeFunction", "<tick>"), ("sqs:SendMessage", "<queue>")},
    "plan_gather": OWN_LOG
    | READ_SOURCES
    | LIST_SOURCES
    | read(
        "<control>/samples/*",
        "<control>/lists/*",
        "<control>/gathers/*",
        "<arrays>/cubes/*.zarr/zarr.json",
        "<arrays>/cubes/*.zarr/report.*",
        "<arrays>/cubes/*.zarr/headers.parquet",
        "<arrays>/cubes/*.zarr/rows.parquet",
        "<arrays>/cubes/*.zarr/contributors.parquet",
        "<arrays>/cubes/*.zarr/receipt.json",
        "<arrays>/cubes/*.zarr/status/*",
        "<arrays>/cubes/*.zarr/versions/*.claim",
        "<arrays>/cubes/*.archive.json",
    )
    | {("s3:ListBucket", "<control> gathers/*"), ("s3:ListBucket", "<arrays> cubes/*")}
    | put(
        "<control>/gathers/*",
        "<control>/summaries/*",
        "<arrays>/cubes/*/zarr.json",
        "<arrays>/cubes/*.archive.json",
        "<arrays>/cubes/*.zarr/versions/*.claim",
        "<arrays>/cubes/*.zarr/status/*",
    ),
    "gather_shard": WORKER,
    "small_gather_shard": WORKER,
    "finish_gather": OWN_LOG
    | read("<control>/pace/*", "<control>/gathers/*", "<control>/cancelled/*", "<arrays>/cubes/*")
    | {("s3:ListBucket", "<control> gathers/*"), ("s3:ListBucket", "<arrays> cubes/*")}
    | put("<control>/pace/*", "<control>/gathers/*/shards/*", "<arrays>/cubes/*"),
    "machine": machine_role(
        "machine",
        "<control>/gathers/*/manifests/*",
        "plan_gather",
        "gather_shard",
        "small_gather_shard",
        "finish_gather",
    ),
    "tables": machine_role("tables", "<control>/tables/*/manifests/*", "plan_table", "read_images"),
}

MACHINES = ("machine", "tables")


def operator_of(machine: str) -> set[tuple[str, str]]:
    """Return an operator's rights to one state machine."""
    return (
        see_children(machine)
        | operate(
            *("DescribeExecution", "GetExecutionHistory", "ListMapRuns", "RedriveExecution", "StopExecution"),
            machine=machine,
        )
        | {
            ("states:StartExecution", f"<{machine}>"),
            ("states:ListExecutions", f"<{machine}>"),
            ("states:DescribeStateMachine", f"<{machine}>"),
            ("states:GetExecutionHistory", CHILDREN.replace("machine", machine)),
        }
    )


OPERATOR = (
    read("<control>/lists/*", "<control>/summaries/*", "<control>/pace/halted.json")
    | {
        ("execute-api:Invoke", "arn:<partition>:execute-api:<region>:<accountid>:<restapi>/<stage>/*/*"),
        ("cloudformation:DescribeStacks", STACK),
        ("states:ListStateMachines", "*"),
    }
    | {
        (f"logs:{action}", f"{LOGS}:{group}*")
        for action in ("FilterLogEvents", "GetLogEvents", "StartQuery")
        for group in ("PixelGather-main", "/aws/vendedlogs/states/PixelGather-main")
    }
    | {(f"logs:{action}", "*") for action in ("DescribeLogGroups", "GetQueryResults", "StopQuery")}
    | {(f"cloudwatch:{action}", "*") for action in ("DescribeAlarms", "GetMetricData", "ListMetrics")}
    | {("cloudwatch:GetDashboard", "arn:<partition>:cloudwatch::<accountid>:dashboard/<dashboard>")}
    | put("<control>/lists/*", "<control>/cancelled/*")
    | operator_of("machine")
    | operator_of("tables")
)
_POLICY_CHARACTERS = 6144
"""Of a managed policy, white space aside. IAM takes no more."""

SCHEDULES = "arn:<partition>:scheduler:<region>:<accountid>:schedule/PixelGather-main/*"
SCHEDULER = {(f"scheduler:{action}Schedule", SCHEDULES) for action in ("Create", "Get", "Delete")} | {
    ("scheduler:ListSchedules", "*"),
    ("iam:PassRole", "<role>"),
    ("cloudformation:DescribeStacks", STACK),
}

TABLE = "| principal | may | may not |"

READER = read("<arrays>/cubes/*") | {("s3:ListBucket", "<arrays> cubes/*")}


@pytest.fixture(scope="module")
def stack() -> Synthesized:
    """A stack with a prefix for its cubes, a catalog, a canary and a budget."""
    return synthesized(**WITH_ALL)


@pytest.mark.parametrize("holder", RIGHTS)
def test_role_holds_these_rights_and_no_others(stack: Synthesized, holder: str) -> None:
    """Each role has exactly the listed rights."""
    assert rights_of(stack, holder) == RIGHTS[holder]


def test_operators_are_told_of_each_role() -> None:
    """The table in docs/operate.md has a row for each role and each policy."""
    lines = (Path(__file__).parents[2] / "docs/operate.md").read_text().splitlines()
    told = [line.split("|")[1].strip() for line in lines[lines.index(TABLE) + 2 :] if line.startswith("| ")]
    names = {"plan_gather": "plan", "finish_gather": "finish", "machine": "state machine"}
    names |= {"tables": "tables' state machine"}
    names |= dict.fromkeys(("gather_shard", "small_gather_shard"), "gather shard (both sizes)")
    roles = {names.get(holder, holder.replace("_", " ")) for holder in RIGHTS}

    assert set(told) == roles | {"operators (policy)", "schedulers (policy)", "readers (policy)"}
    assert len(told) == len(set(told))


def test_roles_have_no_policies_but_those(stack: Synthesized) -> None:
    """No role has inline or AWS-managed policies, except the account's log role of API Gateway."""
    roles = stack.of("AWS::IAM::Role")
    ours = {role_of(stack, holder) for holder in RIGHTS}
    (other,) = set(roles) - ours

    assert all("Policies" not in role["Properties"] for role in roles.values())
    assert all("ManagedPolicyArns" not in roles[name]["Properties"] for name in ours)
    assert stack.show(roles[other]["Properties"]["ManagedPolicyArns"][0]).endswith(
        "AmazonAPIGatewayPushToCloudWatchLogs"
    )


def test_nobody_may_delete_or_pass_a_role_but_that_of_schedules(stack: Synthesized) -> None:
    """No role may delete objects. Who adds schedules may pass on one role, and to Scheduler alone."""
    actions = {
        action
        for type_ in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")
        for policy in stack.properties(type_)
        if policy["PolicyDocument"] != handed_out(stack, "SchedulePolicyArn")
        for action, _ in rights_in(stack, policy["PolicyDocument"])
    }
    (passing,) = [
        statement
        for statement in handed_out(stack, "SchedulePolicyArn")["Statement"]
        if statement["Action"] == "iam:PassRole"
    ]

    assert not any(action.startswith("s3:Delete") for action in actions)
    assert not any(action.startswith("iam:") or "*" in action for action in actions)
    assert passing["Resource"]["Fn::GetAtt"][0] == role_of(stack, "schedules")
    assert passing["Condition"] == {"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}}


def test_schedulers_policy_reaches_the_groups_schedules_and_no_gather(stack: Synthesized) -> None:
    """Who adds schedules may do that in the stack's own group, and nothing else."""
    assert rights_in(stack, handed_out(stack, "SchedulePolicyArn")) == SCHEDULER


def test_operators_policy_reaches_gathers_and_no_cube(stack: Synthesized) -> None:
    """Operators may use the API and both state machines, and may read neither sources nor cubes."""
    document = handed_out(stack, "OperatorPolicyArn")
    longest_id = "x" * 80

    assert rights_in(stack, document) == OPERATOR
    resolved = re.sub(
        r'\{"(Ref|Fn::GetAtt)":[^}]*\}', longest_id, json.dumps(document, separators=(",", ":"))
    )
    assert len(resolved) < _POLICY_CHARACTERS


def test_readers_policy_reaches_cubes_and_nothing_else(stack: Synthesized) -> None:
    """Readers may read cubes and change nothing. They have no right to the API or to control files."""
    assert rights_in(stack, handed_out(stack, "ReaderPolicyArn")) == READER


def handed_out(stack: Synthesized, output: str) -> dict[str, Any]:
    """Return the document of the policy that an output of the stack names."""
    policy = stack.template["Resources"][stack.template["Outputs"][output]["Value"]["Ref"]]
    document: dict[str, Any] = policy["Properties"]["PolicyDocument"]
    return document


def test_roles_are_assumed_by_the_service_that_runs_them(stack: Synthesized) -> None:
    """Each role can be assumed by one service and by no account."""
    services = {
        stack.template["Resources"][role_of(stack, holder)]["Properties"]["AssumeRolePolicyDocument"][
            "Statement"
        ][0]["Principal"]["Service"]
        for holder in RIGHTS
    }

    assert services == {"lambda.amazonaws.com", "states.amazonaws.com", "scheduler.amazonaws.com"}


def test_roles_are_assumed_for_this_account_alone(stack: Synthesized) -> None:
    """No other account can have a service assume our roles."""
    for holder in RIGHTS:
        (statement,) = stack.template["Resources"][role_of(stack, holder)]["Properties"][
            "AssumeRolePolicyDocument"
        ]["Statement"]
        ((operator, condition),) = statement["Condition"].items()
        is_function = holder not in (*MACHINES, "schedules")
        assert operator == ("StringEqualsIfExists" if is_function else "StringEquals")
        group = condition.pop("aws:SourceArn", None)
        assert condition == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
        assert group is None or stack.show(group) == GROUP


KEY = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"


@pytest.mark.long
def test_own_key_is_used_by_whoever_reads_or_writes_the_stacks_buckets_and_by_nobody_else() -> None:
    """Who gets objects may decrypt; who puts them may have data keys made. Both hold only through S3."""
    stack = synthesized(
        kms_key=KEY,
        array_bucket="our-cubes",
        control_bucket="our-plans",
        canary_hours=6,
        max_usd_per_month=50,
    )
    buckets = stack.properties("AWS::S3::Bucket")
    rights: dict[str, set[str]] = {}
    documents = [(holder, document) for holder in RIGHTS for document in documents_of(stack, holder)]
    documents += [
        (each["Description"], each["PolicyDocument"]) for each in stack.properties("AWS::IAM::ManagedPolicy")
    ]
    for holder, document in documents:
        for statement in document["Statement"]:
            for action in as_list(statement["Action"]):
                shown = [stack.show(each) for each in as_list(statement["Resource"])]
                if action.startswith("kms:"):
                    assert shown == [KEY]
                    assert stack.show(statement["Condition"]["StringEquals"]["kms:ViaService"]) == (
                        "s3.<region>.<urlsuffix>"
                    )
                    rights.setdefault(holder, set()).add(action)
                is_data = action in ("s3:GetObject", "s3:PutObject")
                if is_data and any(each.startswith(("<arrays>", "<control>")) for each in shown):
                    rights.setdefault(holder, set()).add(action)

    assert sorted(each["BucketName"] for each in buckets) == ["our-cubes", "our-plans"]
    for each in buckets:
        (rule,) = each["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule["ServerSideEncryptionByDefault"] == {"KMSMasterKeyID": KEY, "SSEAlgorithm": "aws:kms"}
        assert rule["BucketKeyEnabled"] is True
    for holder, found in rights.items():
        assert ("kms:Decrypt" in found) == bool(found & {"s3:GetObject", "s3:PutObject"}), holder
        assert ("kms:GenerateDataKey" in found) == ("s3:PutObject" in found), holder
    assert {"gather_shard", "machine", "canary", "Read cubes of Pixel Gather"} <= rights.keys()
    assert "kms:GenerateDataKey" not in rights["Read cubes of Pixel Gather"]


@pytest.mark.long
def test_readers_of_sources_may_decrypt_with_their_buckets_key_and_nobody_else() -> None:
    """The right to decrypt holds only through S3 in the bucket's Region. The search reads its catalog."""
    stack = synthesized(
        source_buckets=[
            {"name": "sealed", "kms_key": KEY},
            {"name": "sealed-too", "region": "eu-west-1", "kms_key": KEY},
            {"name": "plain"},
        ],
        catalog="s3://sealed/all.parquet",
        canary_hours=6,
        max_usd_per_month=50,
    )
    found = {
        (holder, stack.show(statement["Resource"]), stack.show(condition))
        for holder in RIGHTS
        for document in documents_of(stack, holder)
        for statement in document["Statement"]
        if "kms:Decrypt" in as_list(statement["Action"])
        for condition in [statement["Condition"]["StringEquals"]["kms:ViaService"]]
    }

    assert found == {
        (holder, KEY, "s3.eu-west-1.<urlsuffix>")
        for holder in (
            "answer_searches",
            "dry_run",
            "rank",
            "answer_tables",
            "plan_table",
            "read_images",
            "plan_gather",
            "gather_shard",
            "small_gather_shard",
        )
    }
    for each in stack.functions().values():
        assert "kms" not in stack.show(each["Environment"]["Variables"]["PIXEL_GATHER_SOURCE_BUCKETS"])


@pytest.mark.long
def test_search_lists_only_the_buckets_that_say_so() -> None:
    """Of those that are read unsigned, and without a catalog, no right is needed."""
    sources = [
        {"name": "folders", "expand": True},
        {"name": "open-data", "expand": True, "unsigned": True},
        {"name": "scenes"},
    ]
    listing = {("s3:ListBucket", "arn:<partition>:s3:::folders")}
    for catalog, expected in ((None, OWN_LOG), ("s3://open-data/all.parquet", OWN_LOG | listing)):
        context: dict[str, Any] = {"catalog": catalog} if catalog else {}
        assert rights_of(synthesized(source_buckets=sources, **context), "answer_searches") == expected


def test_source_bucket_that_is_read_unsigned_gives_no_right(stack: Synthesized) -> None:
    """Anonymous reads need no right, so none is granted."""
    for policy in stack.properties("AWS::IAM::Policy"):
        assert not any("open-data" in place for _, place in rights_in(stack, policy["PolicyDocument"]))


def role_of(stack: Synthesized, holder: str) -> str:
    """Return the logical id of a function's role, by its module, or of a state machine's role."""
    if holder in MACHINES:
        machine = stack.machine(holder)
        return str(machine["RoleArn"]["Fn::GetAtt"][0])
    if holder == "schedules":
        return str(stack.template["Outputs"]["ScheduleRoleArn"]["Value"]["Fn::GetAtt"][0])
    return str(stack.functions()[holder]["Role"]["Fn::GetAtt"][0])


def documents_of(stack: Synthesized, holder: str) -> list[dict[str, Any]]:
    """Return the policies that are attached to a role."""
    role = {"Ref": role_of(stack, holder)}
    policies = stack.properties("AWS::IAM::Policy")
    return [each["PolicyDocument"] for each in policies if role in each["Roles"]]


def rights_of(stack: Synthesized, holder: str) -> set[tuple[str, str]]:
    """Return all rights of a role."""
    return set().union(*(rights_in(stack, document) for document in documents_of(stack, holder)))


def rights_in(stack: Synthesized, document: dict[str, Any]) -> set[tuple[str, str]]:
    """Return each action with its resource. For listing, the allowed prefix follows the bucket."""
    found = set()
    for statement in document["Statement"]:
        assert statement["Effect"] == "Allow"
        bound = statement.get("Condition")
        prefix = (
            ""
            if bound is None or "StringLikeIfExists" not in bound
            else f" {bound['StringLikeIfExists']['s3:prefix']}"
        )
        for action in as_list(statement["Action"]):
            for resource in as_list(statement["Resource"]):
                found.add((action, stack.show(resource) + prefix))
    return found


def as_list(value: Any) -> list[Any]:
    """Return a value or a list of values as a list."""
    return value if isinstance(value, list) else [value]
