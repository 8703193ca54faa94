import subprocess
import sys

import pytest
from typer.main import get_command

import stablemiss
from stablemiss.cli.app import app

COMMANDS = ("demo", "fit", "evaluate", "predict", "tune", "methods", "reproduce", "report")


def test_version_prints_the_version_of_the_package(run):
    assert run("--version").stdout == f"stablemiss {stablemiss.__version__}\n"


def test_help_lists_all_commands(run):
    text = run("--help").stdout
    assert all(command in text for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_shows_an_example(run, command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"Example:  stablemiss {command}" in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["fit", "--help"],
        ["tune", "--help"],
        ["methods"],
        ["predict", "absent.model", "absent.csv"],
        ["evaluate", "absent.model", "absent.csv"],
    ],
)
def test_help_methods_and_invalid_arguments_do_not_import_large_libraries(arguments, tmp_path):
    script = (
        "import sys\n"
        f"sys.argv = ['stablemiss', *{arguments!r}]\n"
        "from stablemiss.cli import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit:\n"
        "    pass\n"
        "print(sorted({'torch', 'sklearn', 'lightgbm', 'pyarrow', 'matplotlib', 'optuna', 'pandas', 'scipy'}"
        " & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_and_argument_has_a_help_text(command):
    parameters = get_command(app).commands[command].params
    assert all(parameter.help for parameter in parameters)
