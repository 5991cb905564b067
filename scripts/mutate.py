"""Changes the code one place at a time, and counts how many changes the tests notice.

    uv run --locked python scripts/mutate.py --sample 300 --seed 1 --out mutants.jsonl
    uv run --locked python scripts/mutate.py plan read --again mutants.jsonl --slow

The folders below are first tested as they are, to learn which test runs which line. Then each mutant gets a
process of its own and runs only the tests that reach its line. It is forked from one in which these tests are
collected already, and changes one function in memory. Code that runs when a module is imported needs another
way. The mutant is forked from a process that has only the libraries in memory, and imports the changed
module. A mutant that no test notices has survived. docs/testing.md has the score, and the survivors that
stay.
"""

import argparse
import ast
import gc
import importlib
import importlib.machinery
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
CODE: Final = ROOT / "functions"
TESTS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "core/read": ("tests/read",),
    "core/plan": ("tests/plan",),
    "core/results/row_coordinates.py": ("tests/results",),
    "engine": ("tests/engine", "tests/faults/test_simulation.py"),
    "io/geotiff": ("tests/geotiff",),
    "io/store/limiter": ("tests/store",),
    "io/store/hedge_policy.py": ("tests/store",),
    "io/store/hedged_gets.py": ("tests/store",),
    "core/estimate": ("tests/estimate",),
    "features/rank/forecast.py": ("tests/rank",),
    "core/scenes": ("tests/scenes",),
    "core/request": ("tests/request",),
    "engine/header_cache.py": ("tests/engine",),
}
"""Where the tests of each folder or module are."""

_PRELOADED: Final = (
    "hypothesis", "imagecodecs", "msgspec", "numpy", "obstore", "pydantic", "pytest", "rasterio", "shapely",
    "tifffile", "uvloop", "xxhash", "zarr",
)  # fmt: skip
_LEAST_S: Final = 20.0
_TIMES_AS_LONG: Final = 5.0
"""A mutant may take this many times what its tests took before, and `_LEAST_S` more."""

_MOST_TESTS: Final = 500
"""A mutant that so many tests do not notice counts as a survivor."""

_SWAPS: Final[Mapping[type[ast.AST], type[ast.AST]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Break: ast.Continue,
    ast.Continue: ast.Break,
}
_GUARDS: Final = ("strict",)
"""Keyword arguments that guard against mistakes of our own, which do not occur. They are not changed."""

ACCEPTED: Final[Mapping[str, str]] = {
    r"^core/estimate/assumptions.py plus one: ": "a figure that was measured or published",
    r"^core/estimate/worker_count.py plus one: 60.0$": "a size that was chosen by measuring",
    r"^core/estimate/(fleet|worker_count).py operator: .*_s (>|<=) (now|longest)_s$": (
        "no two times are equal"
    ),
    r"^core/estimate/worker.py plus one: 0.0$": "one byte",
    r"^core/estimate/worker_count.py operator: size.memory_mib <": "the same size twice",
    r"^engine/header_cache.py (plus one: (1|8|20|32|256)|.*(largest|AHEAD))": "how much is read ahead",
    r"^core/plan/layout.py plus one: (512|1024|128|32|10000|16)$": "a size that was chosen by measuring",
    r"^core/read/pixel_statistics.py operator: .*(_LONGEST_LINE|n_valid < part.size|part.ndim > 1)": (
        "only faster"
    ),
    r"^core/read/pixel_statistics.py without sign: -1$": "NumPy's other name of the same axis",
    r"^core/read/read_shard.py operator: .*time\(\) >= read_until$": "no two times are equal",
    r"^core/results/row_coordinates.py never: math.nan if each.nodata is None": "only faster",
    r"^core/results/row_coordinates.py plus one: 1$": (
        "NumPy takes any negative length for the one that is left"
    ),
    r"^engine/archive.py plus one: 2$": "the spaces that indent a file",
    r"^engine/commit_shard.py (plus one: (0|50|1.0)|left out: await (_pause|asyncio.sleep).*)$": "a pause",
    r"^engine/finish_gather.py (plus one: 32|never: if len\(group\) == 1:)$": "only faster",
    r"^engine/finish_gather.py operator: len\(missing\) >": "no share is a millionth",
    r"^engine/finish_gather.py operator: len\(batch\) >= n_rows$": "only later",
    r"^engine/gather_shard.py plus one: 1$": "how many threads, if nobody knows the number of cores",
    r"^features/virtual/refer_tiles.py plus one: 0$": "parts of a task that nobody reads there",
}
"""Mutants that cannot be noticed, or need not be: a pattern of "file change", and the reason."""

_NOTHING: Final = ("None", "False")
"""What is taken for false, as `None` is. `False` is changed to `True` instead."""

_NAMES: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change."""

    file: str
    """Below ``functions/pixel_gather``."""

    line: int
    column: int
    change: str
    """What it does: the kind of change, and the code before it."""

    of: str
    """Key of `TESTS_OF`."""

    @property
    def path(self) -> Path:
        """The module."""
        return CODE / "pixel_gather" / self.file

    @property
    def key(self) -> tuple[str, int, str]:
        """What stays the same when lines are added above it."""
        return self.file, self.column, self.change

    @property
    def reason(self) -> str | None:
        """Why it may survive; None if it may not."""
        said = f"{self.file} {self.change}"
        return next((why for pattern, why in ACCEPTED.items() if re.search(pattern, said)), None)

    def function(self) -> tuple[str, int] | None:
        """Return the name and the first line of the function in whose body it is; None outside of any."""
        return _function_at(ast.parse(self.path.read_text()), (self.line, self.column))

    def changed(self) -> ast.Module:
        """Return the module's syntax tree with the change."""
        tree = ast.parse(self.path.read_text())
        for node in _nodes(tree):
            if (node.lineno, node.col_offset) == (self.line, self.column):
                for kind in _kinds(node):
                    if _said(kind, node) == self.change:
                        _change(node, kind)
                        return ast.fix_missing_locations(tree)
        raise LookupError(self)


def _function_at(tree: ast.AST, at: tuple[int, int], inside: str = "") -> tuple[str, int] | None:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            found = _function_at(node, at, f"{inside}{node.name}.")
            if found is not None:
                return found
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first, last = node.body[0], node.body[-1]
            if (first.lineno, first.col_offset) <= at < (last.end_lineno or 0, last.end_col_offset or 0):
                lines = [node.lineno, *(each.lineno for each in node.decorator_list)]
                return f"{inside}{node.name}", min(lines)
    return None


def mutants_of(path: Path, of: str) -> Iterator[Mutant]:
    """Yield each mutant of a module."""
    file = path.relative_to(CODE / "pixel_gather").as_posix()
    for node in _nodes(ast.parse(path.read_text())):
        for kind in _kinds(node):
            yield Mutant(file=file, line=node.lineno, column=node.col_offset, change=_said(kind, node), of=of)


def _said(kind: str, node: Any) -> str:
    return f"{kind}: {ast.unparse(node).splitlines()[0][:90]}"


def _nodes(tree: ast.AST) -> Iterator[Any]:
    """Yield what may be changed: no annotation, decorator, docstring, message, import or assertion."""
    skipped = (ast.Import, ast.ImportFrom, ast.Assert, ast.Raise, ast.JoinedStr, ast.TypeAlias)
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, skipped):
                continue
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.keyword) and child.arg in _GUARDS:
                continue
            if isinstance(child, ast.expr | ast.stmt):
                yield child
            yield from _nodes(child)


def _kinds(node: ast.AST) -> Iterator[str]:  # noqa: C901, PLR0912 # a table of kinds of code
    match node:
        case ast.BinOp() | ast.AugAssign() if type(node.op) in _SWAPS:
            if not isinstance(getattr(node, "left", None), ast.JoinedStr):
                yield "operator"
        case ast.Compare() if type(node.ops[0]) in _SWAPS:
            yield "operator"
        case ast.BoolOp():
            yield "operator"
        case ast.UnaryOp() if isinstance(node.op, ast.Not | ast.USub):
            yield "without sign"
        case ast.Constant() if isinstance(node.value, bool):
            yield "negated"
        case ast.Constant() if isinstance(node.value, int | float):
            yield "plus one"
        case ast.Call() if isinstance(node.func, ast.Name) and node.func.id in _NAMES:
            yield "other function"
        case ast.Return() if node.value is not None and ast.unparse(node.value) not in _NOTHING:
            yield "none returned"
        case ast.If() | ast.IfExp() | ast.While():
            yield "never"
        case ast.Break() | ast.Continue():
            yield "statement"
        case ast.Expr() if isinstance(node.value, ast.Call | ast.Await):
            yield "left out"
        case ast.Assign() if (
            isinstance(node.targets[0], ast.Attribute) and ast.unparse(node.value) not in _NOTHING
        ):
            yield "none assigned"
        case _:
            return


def _change(node: Any, kind: str) -> None:
    match kind:
        case "operator" if isinstance(node, ast.Compare):
            node.ops[0] = _SWAPS[type(node.ops[0])]()  # type: ignore[call-overload] # an operator for one
        case "operator":
            node.op = _SWAPS[type(node.op)]()
        case "without sign":
            node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not()
            if isinstance(node.op, ast.Not):
                node.operand = ast.UnaryOp(op=ast.Not(), operand=node.operand)
        case "negated":
            node.value = not node.value
        case "plus one":
            node.value += 1
        case "other function":
            node.func.id = _NAMES[node.func.id]
        case "never":
            node.test = ast.Constant(value=False)
        case "left out" | "none returned" | "none assigned":
            node.value = ast.Constant(value=None)
        case _:
            node.__class__ = _SWAPS[type(node)]


class _Lines:
    """A pytest plugin that records which test runs which line, and how long each test takes."""

    def __init__(self, files: Iterable[str]) -> None:
        self.files = frozenset(files)
        self.tests: dict[tuple[str, int], dict[str, None]] = defaultdict(dict)
        self.seconds: dict[str, float] = defaultdict(float)
        self.ran_in: dict[tuple[str, str], set[str]] = defaultdict(set)
        """By file and name, the modules of tests that have run a function while they were collected. An empty
        text stands for a module of the product or of tests' helpers."""

        self.is_collecting = True
        self._of_modules: dict[str, set[tuple[str, int]]] = defaultdict(set)
        self._names: list[str] = []
        self._now: set[tuple[str, int]] = set()
        tool = sys.monitoring.COVERAGE_ID
        sys.monitoring.use_tool_id(tool, "mutate")
        sys.monitoring.register_callback(tool, sys.monitoring.events.LINE, self._seen)
        sys.monitoring.set_events(tool, sys.monitoring.events.LINE)

    def _seen(self, code: CodeType, line: int) -> Any:
        if code.co_filename in self.files:
            self._now.add((code.co_filename, line))
            if self.is_collecting:
                self.ran_in[code.co_filename, code.co_qualname].add(_importing())
        return sys.monitoring.DISABLE

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Begin a test."""
        self._names.append(nodeid)
        self._now = set()
        sys.monitoring.restart_events()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note what a part of a test has run. What sets up one test may be used by all of its module."""
        self.seconds[report.nodeid] += report.duration
        if report.when == "setup":
            self._of_modules[report.nodeid.partition("::")[0]] |= self._now
        for place in self._now:
            self.tests[place][report.nodeid] = None

    def stop(self) -> None:
        """End recording."""
        for name in self._names:
            for place in self._of_modules[name.partition("::")[0]]:
                self.tests[place][name] = None
        sys.monitoring.set_events(sys.monitoring.COVERAGE_ID, 0)


def _importing() -> str:
    """Return the module of tests that is being imported; an empty text if it is another one."""
    frame = sys._getframe(2)  # noqa: SLF001 # nothing else is fast enough
    while frame.f_back is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    path = Path(frame.f_code.co_filename)
    return path.relative_to(ROOT).as_posix() if path.name.startswith("test_") else ""


class _Changed(importlib.machinery.SourceFileLoader):
    """Imports one module from a changed syntax tree."""

    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        super().__init__(name, path)
        self._tree = tree

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002 # its interface
        """Answer for this module alone."""
        is_package = self.path.endswith("__init__.py")
        return (
            importlib.machinery.ModuleSpec(fullname, self, origin=self.path, is_package=is_package)
            if fullname == self.name
            else None
        )

    def get_code(self, fullname: str) -> CodeType:
        """Compile the changed tree."""
        del fullname
        code: CodeType = compile(self._tree, self.path, "exec")
        return code


def _pytest(arguments: Sequence[str], plugins: Sequence[object] = ()) -> int:
    import pytest  # noqa: PLC0415 # in a child

    quiet = ["-q", "-x", "--numprocesses=0", "-p", "no:cacheprovider", "--no-header", "--tb=no"]
    return int(pytest.main([*quiet, *arguments], plugins=list(plugins)))


def _in_child(work: Any, limit_s: float) -> int | None:
    """Run work in a forked process, silently. Return its result, or None if it takes too long."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        os.setsid()
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        code = 9
        try:
            code = work()
        finally:
            os._exit(code)
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code and all that are defined in it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


class _Session:
    """A pytest plugin that tests mutants in place of running the collected tests once."""

    def __init__(self, of: str, mutants: Sequence[Mutant], out: Path, *, slow: bool) -> None:
        self.mutants, self.out, self.slow = mutants, out, slow
        self.lines = _Lines(map(str, _files_of(of)))

    def pytest_collectreport(self) -> None:
        """Have the next module of tests say again what it runs."""
        sys.monitoring.restart_events()

    def pytest_runtestloop(self, session: Any) -> bool:
        """Write the status of each mutant, or that it has to be imported, and the tests that reach it."""
        self.lines.is_collecting = False
        _settle()
        session.config._tmp_path_factory.getbasetemp()  # noqa: SLF001 # all children share the folder
        items = {each.nodeid: each for each in session.items}
        quick = [each for each in session.items if not each.get_closest_marker("slow")]
        lines, seconds = _recorded(self.lines, quick)
        functions = [each for each in gc.get_objects() if type(each) is FunctionType]
        with self.out.open("a") as out:
            for mutant in self.mutants:
                path = str(mutant.path)
                tests = lines.get((path, mutant.line), []) or _of_module(lines, path)
                tests = tests or [each.nodeid for each in quick]  # a module of constants alone
                tests.sort(key=lambda test: (Path(mutant.file).stem not in test, seconds.get(test, 1.0)))
                limit_s = _LEAST_S + _TIMES_AS_LONG * sum(seconds.get(test, 1.0) for test in tests)
                swap = _swap(mutant, functions)
                ran_in = self._ran_in(mutant) if swap is not None else {""}
                found = "to import" if tests else "not reached"
                if "" not in ran_in and tests:
                    now = [each for each in tests if each.partition("::")[0] not in ran_in]
                    found = _status(_running(swap, [items[each] for each in now]), limit_s)
                    if found == "survived" and len(now) < len(tests):
                        found, tests = "to import", [each for each in tests if each not in now]
                if "" not in ran_in and self.slow and found in ("survived", "not reached"):
                    others = [each for each in session.items if each.nodeid not in tests]
                    found = _status(_running(swap, others), 600.0)
                out.write(json.dumps(asdict(mutant) | {"status": found, "tests": tests}) + "\n")
                out.flush()
        return True

    def _ran_in(self, mutant: Mutant) -> set[str]:
        """Return which modules have run the mutant's function as they were imported."""
        name, _ = mutant.function() or ("", 0)
        inner = f"{name}.<locals>"
        return {
            module
            for (file, ran), modules in self.lines.ran_in.items()
            if file == str(mutant.path) and (ran == name or ran.startswith(inner))
            for module in modules
        }


def _settle() -> None:
    """Have Hypothesis look for a failure, but not for the smallest one."""
    from hypothesis import Phase, settings  # noqa: PLC0415 # after the tests' own settings

    settings.register_profile("mutants", settings(), database=None, phases=(Phase.explicit, Phase.generate))
    settings.load_profile("mutants")


def _running(swap: Any, items: Sequence[Any]) -> Any:
    """Return what changes a function and runs tests until one fails."""
    from _pytest.runner import runtestprotocol  # noqa: PLC0415 # in a child

    def work() -> int:
        swap()
        for item, following in zip(items, [*items[1:], None], strict=True):
            if any(each.failed for each in runtestprotocol(item, log=False, nextitem=following)):
                return 1
        return 0

    return work


def _recorded(
    lines: _Lines, items: Sequence[Any]
) -> tuple[dict[tuple[str, int], list[str]], dict[str, float]]:
    """Run tests once, in a child. Return the tests of each line, and the seconds of each test."""
    from _pytest.runner import runtestprotocol  # noqa: PLC0415 # in a child

    with tempfile.NamedTemporaryFile("r") as found:

        def work() -> int:
            for item, following in zip(items, [*items[1:], None], strict=True):
                lines.pytest_runtest_logstart(item.nodeid)
                for report in runtestprotocol(item, log=False, nextitem=following):
                    lines.pytest_runtest_logreport(report)
                    if report.failed:
                        return 1
            lines.stop()
            told = [[file, line, list(tests)] for (file, line), tests in lines.tests.items()]
            Path(found.name).write_text(json.dumps([told, lines.seconds]))
            return 0

        if _in_child(work, 1200):
            raise SystemExit("the tests fail as they are")
        lines.stop()
        told, seconds = json.loads(Path(found.name).read_text())
    return {(file, line): tests for file, line, tests in told}, seconds


def _swap(mutant: Mutant, functions: Sequence[FunctionType]) -> Any:
    """Return what changes the mutant's function in memory; None if its module has to be imported anew."""
    function = mutant.function()
    if function is None:
        return None
    path, (name, line) = str(mutant.path), function
    codes = [
        each
        for each in _codes(compile(mutant.changed(), path, "exec"))
        if (each.co_qualname, each.co_firstlineno) == (name, line)
    ]
    own = [
        each
        for each in functions
        if (each.__code__.co_filename, each.__code__.co_qualname, each.__code__.co_firstlineno)
        == (path, name, line)
    ]
    if len(codes) != 1 or not own:
        return None

    def swap() -> None:
        for each in own:
            each.__code__ = codes[0]

    return swap


def _status(work: Any, limit_s: float) -> str:
    code = _in_child(work, limit_s)
    return "time-out" if code is None else "killed" if code else "survived"


def _imported_status(mutant: Mutant, tests: Sequence[str], *, slow: bool) -> str:
    """Test a mutant whose module has to be imported anew."""
    name = "pixel_gather." + mutant.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    tree = mutant.changed()

    def work(tests: Sequence[str]) -> int:
        sys.meta_path.insert(0, _Changed(name, str(mutant.path), tree))
        _settle()
        return _pytest(tests)

    found = _status(lambda: work(tests[:_MOST_TESTS]), 120.0)
    if found == "survived" and slow:
        return _status(lambda: work(TESTS_OF[mutant.of]), 600.0)
    return found


def _files_of(of: str) -> list[Path]:
    place = CODE / "pixel_gather" / of
    return [place] if place.suffix else sorted(place.rglob("*.py"))


def _chosen(options: argparse.Namespace) -> dict[str, list[Mutant]]:
    """Return the mutants to test by folder: a sample of each in proportion to its size, at least 15."""
    every = {
        of: [each for path in _files_of(of) for each in mutants_of(path, of)]
        for of in TESTS_OF
        if not options.folders or of in options.folders
    }
    if options.again:
        lines = [json.loads(line) for line in Path(options.again).read_text().splitlines()]
        left = {(each["file"], each["column"], each["change"]) for each in lines if _has_survived(each)}
        return {of: [each for each in found if each.key in left] for of, found in every.items()}
    total = sum(map(len, every.values()))
    chance = random.Random(options.seed)  # noqa: S311 # a sample, to be drawn again
    return {
        of: chance.sample(found, min(len(found), max(15, round(options.sample * len(found) / total))))
        for of, found in every.items()
    }


def _has_survived(line: Mapping[str, Any]) -> bool:
    return line["status"] in ("survived", "not reached")


def main() -> None:
    """Test a sample of mutants, or the former survivors, and print the score of each folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", nargs="*", choices=[[], *TESTS_OF], help="only these")
    parser.add_argument("--sample", type=int, default=300, help="about how many mutants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", help="a file of --out: test its survivors again")
    parser.add_argument("--slow", action="store_true", help="have all tests of a folder look at survivors")
    parser.add_argument("--out", help="write a line of JSON for each mutant")
    options = parser.parse_args()
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT), str(ROOT / "functions"), str(ROOT / "tests"), str(ROOT / "scripts")]
    for name in _PRELOADED:
        importlib.import_module(name)
    scores: dict[str, Counter[str]] = {}
    with Path(options.out or os.devnull).open("a") as out:
        for of, mutants in _chosen(options).items():
            if mutants:
                scores[of] = _score(of, mutants, out, slow=options.slow)
    for of, score in scores.items():
        n_killed, n = score["killed"] + score["time-out"], sum(score.values())
        sys.stdout.write(f"{of:40} {n_killed:4} of {n:4}  {dict(score)}\n")


def _score(of: str, mutants: Sequence[Mutant], out: Any, *, slow: bool) -> Counter[str]:
    """Test the mutants of a folder, and tell which have survived."""
    folder = Path(tempfile.mkdtemp())
    found = folder / "found.jsonl"

    def work() -> int:
        temporary = f"--basetemp={folder / 'pytest'}"
        return _pytest([temporary, *TESTS_OF[of]], [_Session(of, mutants, found, slow=slow)])

    try:
        if _in_child(work, 3 * 3600.0):
            raise SystemExit(f"the tests of {of} cannot be run")
        told = [json.loads(each) for each in found.read_text().splitlines()]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    score: Counter[str] = Counter()
    for mutant, each in zip(mutants, told, strict=True):
        tests, status = each.pop("tests"), each["status"]
        if status == "to import":
            status = _imported_status(mutant, tests, slow=slow)
        if status in ("survived", "not reached") and mutant.reason is not None:
            status = "accepted"
        score[status] += 1
        out.write(json.dumps(each | {"status": status, "n_tests": len(tests)}) + "\n")
        out.flush()
        if status in ("survived", "not reached"):
            sys.stdout.write(f"{status}: {mutant.file}:{mutant.line} {mutant.change}\n")
            sys.stdout.flush()
    return score


def _of_module(lines: Mapping[tuple[str, int], Sequence[str]], path: str) -> list[str]:
    """Return the tests of a module's other lines: code at its top runs when it is imported."""
    found: dict[str, None] = {}
    for (file, _), tests in lines.items():
        if file == path:
            found |= dict.fromkeys(tests)
    return list(found)


if __name__ == "__main__":
    main()
