"""Say which scripts the texts of a task have, and which of them the default encoder does not know."""

from collections.abc import Iterator

import numpy as np

from al_ray.core.scripts import script_shares
from al_ray.core.task import Task, strings_at

MOST_TEXTS = 10_000
"""Texts of a side that are read: of more, evenly spaced ones."""
SAID = 0.01
"""Share of a script from which it is named."""
TOO_MANY = 0.3
"""Share of letters of unknown scripts above which an encoder for the language is recommended."""
# Known at least by their letters, as measured (docs/languages.md).
KNOWN = frozenset(
    ("Latin", "Greek", "Cyrillic", "Arabic", "Hebrew", "Bengali", "Devanagari", "Tamil", "Armenian", "Hiragana",
     "Katakana", "Hangul")
)  # fmt: skip


def script_lines(task: Task) -> Iterator[str]:
    """Yield the scripts of each side, unless nearly all letters are Latin, and those that are not known."""
    sides = {"texts": task.left} if task.symmetric else {"left texts": task.left, "right texts": task.right}
    for name, corpus in sides.items():
        count = min(len(corpus), MOST_TEXTS)
        rows = np.linspace(0, len(corpus) - 1, count).round().astype(np.int64)
        shares = script_shares(strings_at(corpus.texts, rows))
        if shares and shares.get("Latin", 0.0) <= 1 - SAID:
            of = f" ({count:,} of {len(corpus):,} texts)" if count < len(corpus) else ""
            said = ", ".join(f"{script} {share:.0%}" for script, share in shares.items() if share >= SAID)
            yield f"scripts of the letters of the {name}: {said}{of}"
        unknown = {script: share for script, share in shares.items() if script not in KNOWN}
        if (share := sum(unknown.values())) > TOO_MANY:
            named = " and ".join(script for script, one in unknown.items() if one >= SAID)
            yield (
                f"the default encoder does not know {named}, {share:.0%} of the letters of the {name}: give "
                "`RunConfig.encoder=FOLDER` with a model for the language (docs/languages.md)"
            )
