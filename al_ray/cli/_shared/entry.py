"""How every command starts and ends: parsing of options, log lines on stderr, and one line for a user's error."""

import atexit
import io
import logging
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, suppress
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import tyro

from al_ray.api.files import check_lasting_path, local_path
from al_ray.cli._help.completion import completion_script
from al_ray.cli._help.groups import subcommands
from al_ray.cli._help.pages import ALL, FLAGS, Page, topic_of, wants_help
from al_ray.cli._shared.called import as_called, parsed, program_of
from al_ray.cli._shared.help import from_tyro, to_tyro
from al_ray.cli._shared.next_steps import next_steps
from al_ray.cli._shared.parse_errors import one_line
from al_ray.cli._shared.registry import COMMANDS, PAPERS, main_of
from al_ray.cli._shared.terminal import (
    LineFormatter,
    plain_output,
    printable,
    printable_output,
    without_passwords,
)
from al_ray.core.config.bounds import check_bounds
from al_ray.core.errors import AlRayError, DryRun, LabelsAwaited

PATHS = {
    *("--task", "--audit", "--out", "--run", "--source", "--left", "--right", "--labels", "--scores", "--config"),
    *("--rerank", "--like", "--questions", "--constants", "--into", "--extend", "--model", "--matches", "--texts"),
    *("--known", "--store", "--token-file"),
}
"""Options that take a path: an empty one is an error."""
_status: list[int] = []  # The exit code of the command, once it has ended.


@atexit.register
def _end() -> None:
    """End the process of a command after whatever else runs at the end of Python, but without C++ destructors.

    In these, Ray's thread that exports figures can abort a process that has done its work (Ray 2.60). A program that
    runs a command and then something else ends with the command's code, unless an exception ends it.
    """
    if _status and not hasattr(sys, "last_value"):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(_status[-1])


def run_process(main: Callable[[], None]) -> None:
    """Run a command as this process, which then ends with the command's exit code."""
    try:
        job(main)
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            _status.append(stop.code or 0)
        raise
    _status.append(0)


def al_ray() -> None:
    """Run the console command `al-ray NAME OPTIONS`, which is also `python -m al_ray` and `python -m jobs`."""
    program = f"python -m {Path(sys.argv[0]).parent.name}" if sys.argv[0].endswith("__main__.py") else "al-ray"
    name, *rest = sys.argv[1:] or [""]
    # What a line of help or the fix of an error shows as the command.
    before = f"{program}{'.' if program == 'python -m jobs' else ' '}"
    if not name:
        _piped(lambda: print(printable(welcome(program, before))))
        return
    if name in FLAGS:
        _piped(lambda: print(overview(program)))
        return
    if name == "papers" and not set(rest) - set(FLAGS):
        _piped(lambda: print(overview(program, papers=True)))
        return
    if name == "--print-completion":
        job(lambda: print(completion_script("".join(rest[:1]))))
        return
    if name not in COMMANDS:
        fail(f"there is no command {name}; give one of {', '.join(COMMANDS)}")
    sys.argv = [f"{before}{name}", *rest]
    run_process(main_of(name))


def overview(program: str, papers: bool = False) -> str:
    """Return the list of commands with a sentence each: of those of further papers, or of all others."""
    commands = {name: command.sentence for name, command in COMMANDS.items() if command.papers == papers}
    if not papers:
        commands["papers"] = f"Further papers: {', '.join(PAPERS)}"
    width = max(map(len, commands))
    rows = "\n".join(f"  {name:<{width}}  {sentence}" for name, sentence in commands.items())
    title = "Further papers" if papers else "Active learning for entity matching on Ray"
    usage = f"usage: {program} COMMAND [OPTIONS]\n\n{title}. Commands:"
    return f"{usage}\n\n{rows}\n\nOptions of a command: {program} COMMAND --help"


def welcome(program: str, before: str) -> str:
    """Return what can be done next in the current folder. before: what the user types before the name of a command."""
    steps = [f"{step.words}\n  {step.command.replace('python -m jobs.', before)}" for step in next_steps(Path())]
    return "\n".join(["What you can do next here:", "", *steps, "", f"All commands: {program} --help"])


def job(main: Callable[[], None]) -> None:
    """Run a command; an AlRayError ends it with one line `error: ...` on stderr and exit code 2.

    What it prints has no character that controls a terminal: such a character may be in a text, an id or a path.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A path that is not UTF-8, or a text that the terminal cannot show, must not crash the command.
        sys.stdout.reconfigure(errors="backslashreplace")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    # Commands import faiss after this line; it logs every build of itself that it tries to load.
    logging.getLogger("faiss.loader").setLevel(logging.WARNING)
    for option, value in pairwise([*sys.argv[1:], "-"]):
        # An empty path would mean the current folder; most likely a shell variable is not set.
        if (not value and option in PATHS) or option.removesuffix("=") in PATHS - {option}:
            fail(f"{option.removesuffix('=')} is empty; give a path")
    # Ray prints lines of actors after a name in colour, whose codes would be written out.
    os.environ.setdefault("RAY_COLOR_PREFIX", "0")
    # Before torch is loaded: waiting threads that spin block those they wait for where another program computes, too.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with printable_output(sys.stdout):
        _run(main)


def _run(main: Callable[[], None]) -> None:
    """Run a command, and print what its exceptions say."""
    try:
        _piped(main)
    except LabelsAwaited as wait:
        print(as_called(str(wait)))
        print(f"then resume with: {program_of(Path(sys.argv[0]).stem)} {shlex.join(sys.argv[1:])}")
    except DryRun as shown:
        print(as_called(str(shown)))
    except AlRayError as error:
        fail(as_called(str(error)))
    except OSError as error:
        # For example a path that is too long, or a folder without read permission.
        if error.filename is None:
            raise
        fail(f"{error.filename}: {error.strerror}; give another path, or change its permissions")


def _piped(main: Callable[[], None]) -> None:
    """Run a command; end without an error if the reader of its output ends first, as in `al-ray report ... | head`."""
    try:
        try:
            main()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes stdout again when it exits, which must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def parse_options(
    kind: Any, name: str, description: str, arguments: Sequence[str] | None = None, default: Any = None
) -> Any:
    """Parse the command line as a value of `kind`, a dataclass or a union of them; a bad one ends the command.

    default: a value of `kind` whose fields are the defaults of options that the command line does not give, or a dict
        of such values by the names of fields.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    generated = to_tyro(kind, default)
    parsed.append(generated)
    if wants_help(arguments):
        show_help(generated, name, description, arguments)
    value = from_tyro(_parsed(generated, name, description, arguments))
    require_local_paths(value)
    check_bounds(value)
    if getattr(value, "out", None) is not None:
        check_lasting_path(value.out)
    return value


def _parsed(generated: Any, name: str, description: str, arguments: Sequence[str]) -> Any:
    """Parse a command line by tyro; what it cannot read ends the command."""
    errors = io.StringIO()
    try:
        # The help of tyro has colours.
        with redirect_stderr(errors), plain_output(sys.stdout):
            return tyro.cli(
                generated, prog=program_of(name), description=description, args=arguments,
                config=(tyro.conf.DisallowNone, tyro.conf.HelptextFromCommentsOff),
            )  # fmt: skip
    except SystemExit as stop:
        if stop.code == 2:
            fail(one_line(errors.getvalue()) or errors.getvalue())
        raise


def show_help(generated: Any, name: str, description: str, arguments: Sequence[str]) -> NoReturn:
    """Print the page of help that a command line asks for, and end the command; an unknown group is an error.

    generated: the type of `to_tyro`.
    """
    members, topic, word = subcommands(generated), topic_of(arguments), "".join(arguments[:1])
    if topic == ALL:
        # All that there is to say of every option is printed by tyro.
        for one in [word] if word in members else members or [""]:
            with suppress(SystemExit):
                _parsed(generated, name, description, [*filter(None, [one]), "--help"])
        sys.exit(0)
    program, chosen = program_of(name), word if word in members else ""
    if not chosen and topic in members:
        chosen, topic = topic, ""
    if members and not chosen:
        if topic:
            fail(f"there is no command {topic} of {program}; give one of {', '.join(members)}, or {ALL}")
        print(Page(program, name, description, generated, as_called).of_commands(members))
        sys.exit(0)
    options = members.get(chosen, generated)
    about = " ".join((options.__doc__ or "").split()) if chosen else description
    page = Page(" ".join(filter(None, (program, chosen))), f"{name} {chosen}".strip(), about, options, as_called)
    groups = {group.name: group for group in page.groups}
    if not topic:
        print(page.first())
    elif topic in groups:
        print(page.of_group(groups[topic]))
    else:
        fail(f"there is no group {topic} of the options of {page.program}; give one of {', '.join([*groups, ALL])}")
    sys.exit(0)


def require_local_paths(options: Any) -> None:
    """Raise BadOption for a URI as the value of an option that takes local paths alone."""
    for one in fields(options):
        value = getattr(options, one.name)
        for path in value if isinstance(value, tuple) else (value,):
            if isinstance(path, Path):
                local_path(path, f"--{one.name.replace('_', '-')}")


def value_of(option: str, arguments: Sequence[str]) -> str | None:
    """Return the last value of an option, given as `--option VALUE` or `--option=VALUE`; None without one."""
    # An option without a value is left to tyro, which reports it.
    values = [value for name, value in pairwise(arguments) if name == option]
    values += [argument.removeprefix(f"{option}=") for argument in arguments if argument.startswith(f"{option}=")]
    return values[-1] if values else None


def fail(message: str) -> NoReturn:
    """End the command: one line on stderr, exit code 2."""
    print("error: " + printable(without_passwords(" ".join(message.split()))), file=sys.stderr)
    sys.exit(2)
