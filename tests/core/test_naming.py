"""How texts name options, calls and commands: Python that Python reads, whatever the values have."""

import ast
from pathlib import Path

import pytest

from al_ray.core.naming import Code, call, command, option, options_of


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Flat", "`search.index='Flat'`"),
        (Path("runs/my run"), "`search.index='runs/my run'`"),
        (0.5, "`search.index=0.5`"),
        (False, "`search.index=False`"),
        (["dev", "test"], "`search.index=['dev', 'test']`"),
        (Code("FILE"), "`search.index=FILE`"),
        ("it's a `x`", '`search.index="it\'s a \\x60x\\x60"`'),
    ],
)
def test_an_option_with_a_value(value, text):
    assert option("search.index", value) == text


def test_a_call_leaves_out_arguments_that_are_none_and_nests_options():
    options = options_of("MatchOptions", left=Code("FILE"), round=None, at_boundary=True)
    text = call("match", model=Path("runs/x"), options=options, out=None)
    assert text == "`al_ray.match(model='runs/x', options=al_ray.MatchOptions(left=FILE, at_boundary=True))`"


@pytest.mark.parametrize(
    "value", ["a b", "it's", 'say "no"', "back`tick", "\\", "new\nline", "\x1b[31m", "\udcff", "ü"]
)
def test_python_reads_the_value_of_a_call_as_it_was(value):
    (text,) = (one for one in call("import_labels", run=value).split("`") if one)
    (argument,) = ast.parse(text, mode="eval").body.keywords  # type: ignore[attr-defined]
    assert ast.literal_eval(argument.value) == value


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"run": "runs/x"}, "`al-ray annotate --run runs/x`"),
        ({"run": "my run", "port": None, "no_page": True, "by": False}, "`al-ray annotate --run 'my run' --no-page`"),
        ({"run": Code("RUN")}, "`al-ray annotate --run RUN`"),
        ({"run": "it's `x`\\"}, "`al-ray annotate --run $'it\\'s \\x60x\\x60\\\\'`"),
    ],
)  # fmt: skip
def test_a_command_is_quoted_for_the_shell(options, text):
    assert command("annotate", **options) == text
