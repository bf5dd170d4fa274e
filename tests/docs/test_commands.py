"""Every command that the documentation shows can be given: its options, tasks, solvers and settings exist.

Commands that only print are run. `make docs` runs those of executed pages, and tests/cli runs one of every kind.
"""

import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from civi.bench.command import PARTS
from civi.cli import main as cli
from civi.cli.fit import check_options
from civi.errors import CiviError, SettingError
from civi.experiment.plan import Plan
from civi.experiment.recipes import GROUPS
from civi.experiment.tasks import OWN_DATA, find_task
from doc_pages import PAGES, ROOT, civi_commands, shell_lines

PLACEHOLDERS = {"TASK": "banana", "NAME": "civi", "N": "3", "mine": "civi"}
APP = typer.main.get_command(cli.app)


def words(command: str) -> list[str]:
    """The arguments of a command line: placeholders have a value, and variables of the shell are 1 or left out."""
    without_variables = re.sub(r"\$\w+", "1", command.replace("$how", ""))
    return [PLACEHOLDERS.get(word, word) for word in shlex.split(without_variables, comments=True)[1:]]


def parsed(arguments: list[str]) -> tuple[list[str], dict]:
    """The names of the command and its subcommands, and the values of its options; raises a usage error."""
    context, command, names = None, APP, ["civi"]
    while True:
        context = command.make_context(names[-1], list(arguments), parent=context)
        if not hasattr(command, "commands"):
            return names[1:], context.params
        name, command, arguments = command.resolve_command(context, [*context._protected_args, *context.args])
        names.append(name)


def check(command: str, table: Path) -> None:
    """Resolve everything that a command names, as it does before it computes anything."""
    arguments = words(command)
    if "--help" in arguments or len(arguments) == 1:
        assert arguments[0] in APP.commands
        return
    (name, *_), options = parsed(arguments)
    if name in ("run", "compare") and (options["data"] or options["task"] not in OWN_DATA):
        data = {key: options[key] for key in ("target", "hold_out")}
        if options["data"] is not None:
            table.write_text(f"x,{options['target']}\n0,a\n1,b\n2,a\n3,b\n4,a\n5,b\n6,a\n7,b\n8,a\n9,b\n")
        task = find_task(options["task"], data=table if options["data"] else None, **data)
        solvers = options.get("solvers", options.get("solver"))
        settings = options["recipe"], 0, options["steps"], options["set_"] or []
        if solvers in GROUPS:
            assert any(serves(task, solver, *settings) for solver in GROUPS[solvers])
        else:
            for solver in solvers.split(","):
                Plan.make(task, solver, *settings)
    if name == "fit":
        check_options(options["seed"], options["draws"], options["seconds"], options["solver"])
    if name == "bench":
        assert options["part"] in (*PARTS, "all")


def prints_only(arguments: list[str]) -> bool:
    """Whether a command prints something and computes nothing."""
    shown = {"--help", "--help-settings"} & set(arguments)
    return bool(shown) or arguments in (["tasks"], ["solvers"], ["data", "list"])


def serves(task, solver: str, *settings) -> bool:
    """Whether a solver can serve a task; a group of solvers leaves out one that cannot."""
    try:
        Plan.make(task, solver, *settings)
    except SettingError:
        return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_can_be_given(page, tmp_path):
    for command in civi_commands(page):
        try:
            check(command, tmp_path / "table.csv")
        except Exception as error:
            pytest.fail(f"{command}: {error}")


PRINTING = sorted(
    {" ".join(words(command)) for page in PAGES for command in civi_commands(page) if prints_only(words(command))}
)


@pytest.mark.parametrize("command", PRINTING)
def test_commands_that_only_print_run(command):
    result = CliRunner().invoke(cli.app, shlex.split(command))
    assert result.exit_code == 0, result.output
    assert len(result.output) > 100


def test_the_pages_show_commands_of_every_kind():
    names = {words(command)[0] for page in PAGES for command in civi_commands(page)}
    assert {"run", "fit", "compare", "bench", "data", "tasks", "solvers"} <= names


@pytest.mark.parametrize(
    "wrong",
    [
        "civi run banan",
        "civi run banana --solvr civi",
        "civi run banana --solver cvii",
        "civi run banana --set tracker.stesp=3",
        "civi compare star --solvers civi,svi",
        "civi bench stepz",
        "civi rum banana",
    ],
)
def test_a_wrong_command_is_found(wrong, tmp_path):
    with pytest.raises((CiviError, AssertionError, typer._click.exceptions.UsageError)):
        check(wrong, tmp_path / "table.csv")


SCRIPT = re.compile(r"python (benchmarks/\w+\.py)(.*)")


def test_scripts_that_the_pages_name_exist_and_have_their_options():
    shown = [found for page in PAGES for line in shell_lines(page) if (found := SCRIPT.search(line))]
    assert len(shown) > 5
    for found in shown:
        source = (ROOT / found[1]).read_text()
        for option in re.findall(r"(?<!\S)--[\w-]+", found[2].split("#")[0]):
            assert f'"{option}"' in source, f"{found[0]}: {option}"


def test_make_targets_that_the_pages_name_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        for line in shell_lines(page):
            found = re.match(r"make ([a-z]+)\b", line.strip())
            assert found is None or found[1] in targets, f"{page}: {line}"


def test_links_of_pages_outside_the_site_lead_to_files():
    for name in ("README.md", "CONTRIBUTING.md"):
        links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", (ROOT / name).read_text())
        assert [link for link in links if not (ROOT / link).exists()] == []
