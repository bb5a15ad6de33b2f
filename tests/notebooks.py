"""Notebooks as tests: their cells are run in order, and what they show is compared with what is kept in them.

A kernel would need a dozen packages to say no more than this: cells are Python that share their names, a cell
shows what it prints and the value of its last expression, as text and as HTML where there is some.

``python tests/notebooks.py FILE`` runs a notebook and keeps what it shows now.
"""

import ast
import contextlib
import io
import json
import sys
from pathlib import Path

from fairmdp.views import notebook  # noqa: F401  (results show themselves as in a notebook)


def run(path):
    """Outputs of each code cell of a notebook, in the working folder."""
    names = {"__name__": "__main__"}
    return [_outputs(cell, names, path.name) for cell in _cells(path) if cell["cell_type"] == "code"]


def kept(path):
    """Outputs that the notebook holds."""
    return [cell["outputs"] for cell in _cells(path) if cell["cell_type"] == "code"]


def keep(path):
    """Put what the cells show now into the notebook."""
    document = json.loads(path.read_text())
    code = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    for k, (cell, outputs) in enumerate(zip(code, run(path), strict=True), start=1):
        cell.update(execution_count=k, outputs=outputs)
        for output in outputs:
            if output["output_type"] == "execute_result":
                output["execution_count"] = k
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def shown(outputs):
    """What a cell shows, without the numbers that count executions."""
    return [{key: value for key, value in each.items() if key != "execution_count"} for each in outputs]


def _cells(path):
    return json.loads(path.read_text())["cells"]


def _outputs(cell, names, called):
    """Run one cell: what it prints, and its last expression."""
    tree = ast.parse("".join(cell["source"]))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, called, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), called, "eval"), names)
    outputs = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
        outputs.append({"data": data, "metadata": {}, "output_type": "execute_result"})
    return outputs


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
