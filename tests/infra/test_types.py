"""Types of CDK: mypy reads only some of its modules, and all that the stack imports are among them."""

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_mypy_reads_every_service_that_is_imported() -> None:
    """The names of a module that mypy does not read are Any, and nothing about them is checked."""
    imported = {
        f"{node.module}.{name.name}" if name.name.startswith("aws_") else node.module
        for folder in ("infra", "tests/infra", "tests/support")
        for path in (ROOT / folder).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "aws_cdk"
        for name in node.names
    }
    overrides = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["overrides"]
    read = {name for each in overrides if each.get("follow_imports") == "normal" for name in each["module"]}

    assert len(imported) > 10
    assert imported <= read
