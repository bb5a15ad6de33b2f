"""The plan of the house: which package may import from which, imports inside functions included."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "fairmdp"

# A package imports from itself and from those above it in this list, and nothing else of ours.
ORDER = (
    "errors", "version", "deadline", "files", "npz", "tables", "model", "records", "chains", "solution", "policy", "world", "scenarios",
    "io", "backends", "certificate", "mirror", "solvers", "welfare", "decomposition", "dispatch", "workers", "learning", "online", "frontiers", "audit",
    "views", "web", "__init__", "cli", "__main__",
)  # fmt: skip

# What a package may not import although it stands above it, and why.
CLOSED = {
    "certificate": ("scenarios", "io", "backends.cpu", "backends.cuda"),  # a proof trusts no search
}


PATHS = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text()


def packages():
    return {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in SOURCE.rglob("*.py")}


def imports(path):
    """Modules of ours that a file imports anywhere, with the line; what only a type checker reads as well."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "fairmdp":
            for alias in node.names:
                yield f"{node.module}.{alias.name}".removeprefix("fairmdp."), node.lineno
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "fairmdp":
                    yield alias.name.removeprefix("fairmdp."), node.lineno


def home(module):
    first = module.split(".")[0]
    return first if first in ORDER else "__init__"


def backward(path):
    """Imports of a file that run against the order."""
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    for module, line in imports(path):
        closed = any(module.startswith(shut) for shut in CLOSED.get(own, ()))
        if closed or ORDER.index(home(module)) > ORDER.index(own):
            yield f"{path.relative_to(SOURCE)}:{line} imports {module}"


def test_every_package_has_a_place():
    assert packages() == set(ORDER)


def test_the_picture_shows_every_package():
    picture = PATHS.split("```text\n")[1].split("```")[0]
    assert packages() - {"__init__", "__main__"} <= set(re.findall(r"\w+", picture))


def test_arrows_go_one_way():
    assert [arrow for path in sorted(SOURCE.rglob("*.py")) for arrow in backward(path)] == []


def test_imports_stand_at_the_top():
    """The package answers `import fairmdp` and --help at once by one `__getattr__`, not by hidden imports."""
    hidden = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                inside = [n for n in ast.walk(node) if isinstance(n, ast.ImportFrom) and n.module]
                hidden += [
                    f"{path.relative_to(SOURCE)}:{n.lineno}" for n in inside if n.module.startswith("fairmdp")
                ]
    assert hidden == []


@pytest.mark.parametrize(
    ("own", "text"),
    [
        ("model/x.py", "def f():\n    from fairmdp.solvers.lp import solve_lp"),
        ("model/x.py", "import fairmdp"),
        ("certificate/x.py", "from fairmdp.backends.cpu.backend import Sweeps"),
        ("solvers/x.py", "from fairmdp import learning"),
    ],
)
def test_a_backward_arrow_is_seen(tmp_path, monkeypatch, own, text):
    path = tmp_path / own
    path.parent.mkdir()
    path.write_text(text)
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    assert len(list(backward(path))) == 1


def test_paths_count_functions_that_there_are():
    """The page names the stations of five calls; (e) goes by (b)."""
    text = "\n".join(file.read_text() for kind in ("py", "js") for file in SOURCE.rglob(f"*.{kind}"))
    counts = {}
    for letter, told in re.findall(r"^\*\*\(([a-e])\)\*\* (.*?)\n\n", PATHS, re.M | re.S):
        told = re.sub(r"^`[^`]+`|\([^)]*`[^)]*\)(?=[ ,])", "", told)
        names = [name.split(".")[-1] for name in re.findall(r"`([\w.]+)`", told)]
        missing = [
            n for n in names if not re.search(rf"(def|class|function) {n}\b|^  {n}\(.*{{$", text, re.M)
        ]
        assert not missing, (letter, missing)
        counts[letter] = int(re.search(r", (\d+)\b", told)[1]), len(names)
    assert list(counts) == list("abcde")
    counts["e"] = counts["e"][0], counts["b"][1] + counts["e"][1]
    assert all(stated == named for stated, named in counts.values()), counts
