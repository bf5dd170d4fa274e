"""Code and commands that the documentation shows: blocks of Python, and lines of the shell."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    [
        *(page for page in DOCS.rglob("*.md") if not {"_build", "_cache"} & set(page.relative_to(DOCS).parts)),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
    ]
)
FENCE = re.compile(r"^(?P<fence>`{3,})(?P<kind>[^\n`]*)\n(?P<body>.*?)^(?P=fence) *$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
COMMAND = re.compile(r"(?<![\w.:/-])civi +[a-z]+(?: .*)?$")


class Block(NamedTuple):
    """A fenced block of a page."""

    page: Path
    kind: str
    text: str

    @property
    def is_python(self) -> bool:
        return self.kind.split()[:1] in (["python"], ["{code-cell}"]) and not self.text.lstrip().startswith("%%")

    @property
    def code(self) -> str:
        """The Python code, without the options of a cell, and without its lines for the shell."""
        lines = self.text.splitlines()
        return "\n".join(
            "pass" if line.startswith(("!", "%")) else line for line in lines if not line.startswith(":tags:")
        )


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page."""
    return [Block(page, found["kind"].strip(), found["body"]) for found in FENCE.finditer(page.read_text())]


def shell_lines(page: Path) -> list[str]:
    """Lines of blocks that are not Python (continued lines joined), lines of cells for the shell, and code spans."""
    lines: list[str] = []
    for block in blocks(page):
        if block.kind == "{eval-rst}":
            continue
        text = re.sub(r"\\\n\s*", " ", block.text)
        shell = [line[1:] for line in text.splitlines() if line.startswith("!")]
        lines += shell if block.is_python else text.splitlines()
    spans = SPAN.findall(FENCE.sub("", page.read_text()))
    return lines + [" ".join(span.split()) for span in spans]


def civi_commands(page: Path) -> list[str]:
    """Every command `civi ...` of a page; lines with [options] or three dots are descriptions and not commands."""
    found = []
    for line in shell_lines(page):
        for part in re.split(r" {3,}| \| | & *$|(?:^|\s)#", line):
            match = COMMAND.search(part.strip().rstrip("';&"))
            if match and not re.search(r"\[|\.\.\.", part):
                found.append(match.group())
    return found
