"""The size limits of CONTRIBUTING.md, over the whole package."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "canaryd").rglob("*.py")) + sorted((ROOT / "migrations").rglob("*.py"))

MODULE_LINES = 400
FUNCTION_LINES = 60
PARAMETERS = 6
POSITIONAL = 2

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.Module) -> Iterator[tuple[Function, bool]]:
    """Yield every function with whether its first parameter is the instance or class."""
    for node in ast.walk(tree):
        bodies = [(node, isinstance(node, ast.ClassDef))] if hasattr(node, "body") else []
        for owner, is_class in bodies:
            for child in owner.body if isinstance(owner.body, list) else []:
                if isinstance(child, Function):
                    static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in child.decorator_list)
                    yield child, is_class and not static


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_sizes(path: Path) -> None:
    source = path.read_text()
    lines = source.count("\n")
    faults = [f"{path.name}: {lines} lines, at most {MODULE_LINES}"] if lines > MODULE_LINES else []
    for function, bound in functions(ast.parse(source)):
        where = f"{path.name}:{function.lineno} {function.name}"
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        if length > FUNCTION_LINES:
            faults.append(f"{where}: {length} lines, at most {FUNCTION_LINES}")
        arguments = function.args
        positional = len(arguments.posonlyargs) + len(arguments.args) - bound
        total = positional + len(arguments.kwonlyargs)
        is_command = any(
            "click" in ast.unparse(each) or "command" in ast.unparse(each) for each in function.decorator_list
        )
        if total > PARAMETERS and not is_command:
            faults.append(f"{where}: {total} parameters, at most {PARAMETERS}")
        if positional > POSITIONAL and not is_command and not function.name.startswith("__"):
            faults.append(f"{where}: {positional} positional parameters, at most {POSITIONAL}; the rest keyword-only")
    assert not faults, "\n".join(faults)


#: What runs model-written code inside the sandbox is no part of the daemon: there every exception is an answer.
INSIDE_THE_SANDBOX = "canaryd/sandbox/child.py"


def test_broad_excepts_are_the_two_allowed_ones() -> None:
    found = [
        name
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"}))
        and (name := str(path.relative_to(ROOT))) != INSIDE_THE_SANDBOX
    ]
    assert sorted(found) == ["canaryd/cli/__init__.py", "canaryd/runner/execute.py"]
