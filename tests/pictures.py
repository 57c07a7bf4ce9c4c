"""Figures of matplotlib in tests: made always, and drawn where a test looks at them.

matches.html alone has two figures, and drawing them takes as long as the rest of a match of a small task. So a figure
that is saved to memory is empty, unless a test or its folder uses the fixture `drawn` (tests/conftest.py).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from matplotlib.figure import Figure

EMPTY = {"png": b"\x89PNG\r\n\x1a\n", "svg": b'<svg xmlns="http://www.w3.org/2000/svg"></svg>'}
_draw = Figure.savefig
_drawing = [False]


def _save(figure: Figure, file: Any, **options: Any) -> None:
    """As Figure.savefig, whose file may be a path, too."""
    if _drawing[-1] or not hasattr(file, "write"):
        _draw(figure, file, **options)
    else:
        file.write(EMPTY[options["format"]])


@contextmanager
def drawing() -> Iterator[None]:
    """Have figures drawn until the context ends."""
    _drawing.append(True)
    try:
        yield
    finally:
        _drawing.pop()


def draw_none() -> None:
    """From now on have figures drawn only inside `drawing`."""
    setattr(Figure, "savefig", _save)  # noqa: B010 (pyright: its arguments have names)
