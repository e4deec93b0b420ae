"""The pages of the documentation: their code, their tables, and a reader that runs the code."""

from __future__ import annotations

import contextlib
import io
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = [
    README,
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted(DOCS.glob("*.md")),
]

OUTPUT = "text"

# A block that cannot run in a test has a comment before it, which says why.
_FENCE = re.compile(
    r"(?P<not_run>^ *<!-- not run: [^\n]+ -->\n)?^ *```(?P<language>\w*)\n(?P<text>.*?)^ *```$",
    re.M | re.S,
)
_EXPRESSION_ID = re.compile(r"#\d+L?")


@dataclass(frozen=True)
class Block:
    """A fenced code block.

    Attributes
    ----------
    place : str
        The file and the line where it begins.
    language : str
        The word after the fence.
    text : str
        The code.
    runs : bool
        False if a comment says that the block needs what a test does not have.
    output : str, optional
        The block of the language `text` that follows it, which shows what the code prints.
    """

    place: str
    language: str
    text: str
    runs: bool = True
    output: str | None = None


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page, in order."""
    content = page.read_text(encoding="utf-8")
    found: list[Block] = []
    for fence in _FENCE.finditer(content):
        line = content.count("\n", 0, fence.start()) + 1
        place = f"{page.relative_to(ROOT)}:{line}"
        text = textwrap.dedent(fence["text"])
        block = Block(place, fence["language"], text, fence["not_run"] is None)
        if block.language != OUTPUT:
            found.append(block)
        else:
            assert found, f"{place}: an output without code"
            assert found[-1].output is None, f"{place}: a second output of the same code"
            found[-1] = replace(found[-1], output=block.text)
    return found


def table(page: Path, name: str) -> str:
    """Return a table of a page: the lines after the comment `<!-- table: name -->`."""
    return _table(page, name)["table"]


def assert_table(page: Path, name: str, expected: str) -> None:
    """Check that a table is the expected one. If WRITE_TABLES is set, write it."""
    if os.environ.get("WRITE_TABLES"):
        start, end = _table(page, name).span("table")
        content = page.read_text(encoding="utf-8")
        page.write_text(content[:start] + expected + content[end:], encoding="utf-8")
    assert table(page, name) == expected, "WRITE_TABLES=1 pytest tests/test_docs.py writes it"


def _table(page: Path, name: str) -> re.Match[str]:
    pattern = rf"<!-- table: {name} -->\n(?P<table>.*?)<!-- end of table -->"
    found = re.search(pattern, page.read_text(encoding="utf-8"), re.S)
    assert found, f"{page} has no table of {name}"
    return found


def cells(markdown: str) -> list[list[str]]:
    """Return the rows of a Markdown table, without its head."""
    lines = [line.removeprefix("|").removesuffix("|") for line in markdown.splitlines()]
    rows = [line.split("|") for line in lines[2:]]
    return [[cell.strip() for cell in row] for row in rows]


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in lines)


class Reader:
    """Runs the Python and SQL blocks of one page in order, as one reader does in one session.

    Parameters
    ----------
    spark : SparkSession
        The session.
    replacements : mapping of str to str
        The texts to replace in the code, such as the address of a server.
    postgres : callable, optional
        Runs statements on the PostgreSQL server that the page is about.
    """

    def __init__(
        self,
        spark: SparkSession,
        replacements: Mapping[str, str],
        postgres: Callable[[str], None] | None = None,
    ) -> None:
        self._spark = spark
        self._replacements = replacements
        self._postgres = postgres
        self._names: dict[str, Any] = {"spark": spark}

    def run(self, block: Block) -> str:
        """Run a block, and return what it prints. An error prints its message."""
        code = block.text
        for text, replacement in self._replacements.items():
            code = code.replace(text, replacement)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                self._run(block.language, code, block.place)
            except PySparkException as error:
                if block.output is None:
                    raise
                print(error)
        return printed.getvalue()

    def _run(self, language: str, code: str, place: str) -> None:
        if language == "python":
            exec(compile(code, place, "exec"), self._names)
        elif language == "sql":
            for statement in statements(code):
                result = self._spark.sql(statement)
            if result.columns:
                result.show(truncate=False)
        elif language == "postgresql":
            assert self._postgres, f"{place} needs a server"
            self._postgres(code)
        else:
            raise AssertionError(f"{place}: no test knows how to run '{language}'")


def statements(code: str) -> Iterator[str]:
    """Split SQL at the semicolons that end a line."""
    for statement in re.split(r";\s*\n", code.rstrip().removesuffix(";") + "\n"):
        if statement.strip():
            yield statement


def matches(expected: str, actual: str) -> bool:
    """Return whether an output is the expected one, in which … stands for anything."""
    return (
        re.fullmatch(re.escape(_normal(expected)).replace("…", ".*"), _normal(actual)) is not None
    )


def _normal(output: str) -> str:
    """Remove the spaces at the ends of lines, and the numbers of the columns in a plan of Spark."""
    lines = [_EXPRESSION_ID.sub("#", line).rstrip() for line in output.strip().splitlines()]
    return "\n".join(lines)
