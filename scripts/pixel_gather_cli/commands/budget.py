"""``pixel-gather budget``: the kill switch of a deployment."""

import time

import click

from pixel_gather.io.aws.executions import Executions
from pixel_gather.io.aws.halt import Switch
from pixel_gather_cli.deployment.aws_account import AwsAccount
from pixel_gather_cli.deployment.remote import deployer_options
from pixel_gather_cli.json_output import json_option, print_json

_LONGEST_S = 900.0
_GOES_ON = "gathers and tables begin as they are asked for"


@click.command("budget")
@deployer_options
@click.option("--halt", is_flag=True, help="Let nothing begin, and let what runs have one worker.")
@click.option("--resume", is_flag=True, help="Let all begin again, and give what runs its workers back.")
@json_option
def budget_command(*, stack: str, halt: bool, resume: bool, as_json: bool, **account: str | None) -> None:
    """Show whether a deployment has spent its budget of the month, halt it, or let it go on.

    A deployment with the setting max_usd_per_month halts by itself. After --resume it does so again in the
    next month, or if one day costs as much as a month may. --halt holds until the month is over.

    \b
    scripts/deploy budget
    scripts/deploy budget --resume
    """
    if halt and resume:
        raise click.UsageError("give --halt or --resume, not both")
    switch = _open_switch(AwsAccount(**account), stack)
    until = time.monotonic() + _LONGEST_S
    changed: list[str] = []
    if halt:
        changed = switch.halt(left_s=lambda: until - time.monotonic(), by_hand=True)
    if resume:
        changed = switch.resume()
    why = switch.gathers.why_halted()
    if as_json:
        print_json({"stack": stack, "halted": why, "changed": changed})
        return
    click.echo(f"{stack}: {why or _GOES_ON}")
    for each in changed:
        click.echo(f"{each} has {'one worker' if halt else 'its workers back'}")


def _open_switch(account: AwsAccount, stack: str) -> Switch:
    control_bucket = account.stack_output(stack, "ControlBucket")
    stepfunctions, s3 = account.client("stepfunctions"), account.client("s3")

    def of(kind: str, output: str) -> Executions:
        return Executions(
            account.stack_output(stack, output),
            stepfunctions=stepfunctions,
            s3=s3,
            control_bucket=control_bucket,
            kind=kind,
        )

    return Switch(gathers=of("gather", "StateMachineArn"), tables=of("table", "TableStateMachineArn"))
