"""What commands print: control characters are written out, and passwords in URIs are left out."""

import io
import logging
import sys

import pytest

from al_ray.cli import run
from al_ray.cli._shared.entry import job
from al_ray.cli._shared.terminal import LineFormatter, PrintableStream, plain_output, printable, without_passwords
from al_ray.core.errors import BadFile, LabelsAwaited

# Clears the screen, sets the title, moves to the start of the line; C1; reorders what follows.
HOSTILE = "a\x1b[2J\x1b]0;title\x07\r\x9b1m\u202eb\u2066"
WRITTEN = r"a\x1b[2J\x1b]0;title\x07\x0d\x9b1m\u202eb\u2066"


def failing(error: Exception):
    def main() -> None:
        raise error

    return main


def test_control_characters_are_written_out_and_other_letters_stay():
    assert printable(HOSTILE) == WRITTEN
    # Tab and line feed; German, Hebrew and Arabic letters, a joiner within a word, an emoji.
    letters = "a\tb\n\xe4 \u05e9\u05dc\u05d5\u05dd \u0633\u0644\u0627\u0645 \u0645\u06cc\u200c\u062e \U0001f642"
    assert printable(letters) == letters


def test_a_command_prints_no_control_character(capsys):
    job(lambda: print(HOSTILE))
    assert capsys.readouterr().out == WRITTEN + "\n"
    # What comes after the command is as before.
    print(HOSTILE)
    assert capsys.readouterr().out == HOSTILE + "\n"


def test_no_line_of_an_error_or_of_a_wait_has_a_control_character(capsys):
    with pytest.raises(SystemExit):
        job(failing(BadFile(f"{HOSTILE}: cannot be read; restore it")))
    # A carriage return is white space, and lines of errors have single spaces.
    assert capsys.readouterr().err == f"error: {WRITTEN.replace(chr(92) + 'x0d', ' ')}: cannot be read; restore it\n"
    job(failing(LabelsAwaited(HOSTILE)))
    assert capsys.readouterr().out.startswith(WRITTEN)


def test_no_line_of_the_log_has_a_control_character_or_a_password():
    record = logging.LogRecord("al_ray", logging.WARNING, "", 1, "%s of http://me:hunter2@host/x", (HOSTILE,), None)
    assert LineFormatter("%(message)s").format(record) == f"{WRITTEN} of http://...@host/x"


def test_the_colours_of_help_pass():
    screen = io.StringIO()
    stream = PrintableStream(screen)
    stream.write("\x1b[1m")
    with plain_output(stream):  # pyright: ignore[reportArgumentType]
        sys.stdout.write("\x1b[1m")
    assert screen.getvalue() == "\\x1b[1m\x1b[1m"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("s3://k:hunter2@bucket/x is bad", "s3://...@bucket/x is bad"),
        ("s3://k:hunter2/more@bucket/x", "s3://...@bucket/x"),
        ("s3://bucket/x?region=a&secret_key=hunter2&b=c", "s3://bucket/x?region=a&secret_key=...&b=c"),
        ("abfs://c/x?sig=hunter2", "abfs://c/x?sig=..."),
        # No passwords.
        ("http://127.0.0.1:8000/a@b", "http://127.0.0.1:8000/a@b"),
        (
            "http://host/a@b?region=x, http://host:80/?design=key",
            "http://host/a@b?region=x, http://host:80/?design=key",
        ),
    ],
)
def test_no_error_line_has_a_password(said: str, shown: str, capsys):
    assert without_passwords(said) == shown
    with pytest.raises(SystemExit):
        job(failing(BadFile(said)))
    assert capsys.readouterr().err == f"error: {shown}\n"


def test_an_unknown_option_does_not_repeat_the_password_of_the_next(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["al-ray run", "--task", "t", "--outt", "s3://me:hunter2@bucket/run"])
    with pytest.raises(SystemExit) as stop:
        job(run.main)
    assert stop.value.code == 2
    assert "--outt" in (line := capsys.readouterr().err)
    assert "hunter2" not in line
