"""Writes docs/python.md: the signatures and docstrings of the public names of ``pixel_gather``."""

import ast
import inspect
import re
from collections.abc import Iterator
from textwrap import dedent
from typing import Any, Final

import pixel_gather

_HEAD: Final = """# Python

For whoever writes Python: the public names of `pixel_gather`. `uv run python scripts/write_docs.py` makes
this page from their docstrings, and a test compares it with the code.
The fields of a request: [request.schema.json](request.schema.json).
"""
_SECTION: Final = re.compile(r"(Args|Returns|Yields|Raises):")
_ENTRY: Final = re.compile(r"(?P<name>[\w*]+): (?P<text>.*)", re.DOTALL)


def python_text() -> str:
    """Return docs/python.md."""
    public = {name: getattr(pixel_gather, name) for name in dir(pixel_gather) if not name.startswith("__")}
    functions = {name: found for name, found in public.items() if inspect.isfunction(found)}
    classes = {name: found for name, found in public.items() if name not in functions}
    errors = {name: found for name, found in classes.items() if issubclass(found, Exception)}
    others = {name: found for name, found in classes.items() if name not in errors}
    parts = [_HEAD, "## Functions\n", *(_function(found) for found in functions.values())]
    parts += ["## Classes\n", *(_class(found) for found in others.values())]
    parts += ["## Errors\n", "\n".join(_error(name, found) for name, found in errors.items()) + "\n"]
    return "\n".join(parts)


def _function(function: Any) -> str:
    return "\n".join((f"### {function.__name__}\n", *_signature(_tree(function)), *_describe(function)))


def _class(class_: type) -> str:
    lines = [f"### {class_.__name__}\n", *_describe(class_)]
    kinds = [each for each in reversed(class_.__mro__) if each.__module__.startswith("pixel_gather.")]
    members = [*(field for each in kinds for field in _fields(_tree(each))), *_methods(class_)]
    return "\n".join([*lines, *members, ""] if members else lines)


def _error(name: str, error: type[Any]) -> str:
    base = error.__base__
    below = f" A `{base.__name__}`." if base is not None and base.__name__ in dir(pixel_gather) else ""
    return f"- `{name}`, code `{error.code}`: {' '.join((inspect.getdoc(error) or '').split())}{below}"


def _tree(found: Any) -> Any:
    (node,) = ast.parse(dedent(inspect.getsource(found))).body
    return node


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Yield a function's first lines as they stand in the code, one argument a line."""
    given = node.args
    required = [None] * (len(given.args) - len(given.defaults))
    arguments = [
        *map(_argument_text, given.args, [*required, *given.defaults]),
        *(["*"] if given.kwonlyargs else []),
        *map(_argument_text, given.kwonlyargs, given.kw_defaults),
        *([f"**{ast.unparse(given.kwarg)}"] if given.kwarg else []),
    ]
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returned = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    lines = "".join(f"    {each},\n" for each in arguments)
    yield f"```python\n{kind} {node.name}(\n{lines}){returned}\n```\n"


def _argument_text(argument: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(argument) + ("" if default is None else f" = {ast.unparse(default)}")


def _fields(node: ast.ClassDef) -> Iterator[str]:
    """Yield the attributes that a class declares, each with the text below it."""
    for each, after in zip(node.body, [*node.body[1:], None], strict=True):
        match each:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                kind = f": {ast.unparse(annotation)}" if _is_plain(annotation) else ""
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value)):
                kind = f" = {value!r}"
            case _:
                continue
        if not name.startswith("_") and name != "model_config":
            yield f"- `{name}{kind}`{_text_below(after)}"


def _is_plain(annotation: ast.expr) -> bool:
    """Return whether a type says something without the validators that a request's fields carry."""
    return not any(isinstance(each, ast.Call) for each in ast.walk(annotation))


def _text_below(node: ast.stmt | None) -> str:
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return f": {' '.join(inspect.cleandoc(text).split())}"
    return ""


def _methods(class_: type) -> Iterator[str]:
    for name, member in vars(class_).items():
        found = member.fget if isinstance(member, property) else member
        if not name.startswith("_") and inspect.isfunction(found):
            shown = name if isinstance(member, property) else f"{name}({_argument_names(found)})"
            yield f"- `{shown}`: {(inspect.getdoc(found) or '').partition('\n')[0]}"


def _argument_names(method: Any) -> str:
    """Return a method's arguments and their defaults, without types."""
    node = _tree(method).args
    for each in (*node.args, *node.kwonlyargs, *filter(None, (node.vararg, node.kwarg))):
        each.annotation = None
    node.args = [each for each in node.args if each.arg not in ("self", "cls")]
    return ast.unparse(node)


def _describe(found: Any) -> Iterator[str]:
    """Yield a docstring as Markdown: its sections as lists."""
    for paragraph in (inspect.getdoc(found) or "").split("\n\n"):
        title, _, rest = paragraph.partition("\n")
        if _SECTION.fullmatch(title):
            yield f"{title}\n"
            yield from _entries(dedent(rest))
        else:
            yield f"{' '.join(paragraph.split())}\n"


def _entries(text: str) -> Iterator[str]:
    for entry in re.split(r"\n(?=\S)", text):
        found = _ENTRY.fullmatch(entry)
        words = " ".join((found["text"] if found else entry).split())
        yield f"- `{found['name']}`: {words}" if found else f"- {words}"
    yield ""
