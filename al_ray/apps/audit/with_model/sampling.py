"""Draw the two samples of an audit that a language model and people label.

First pairs are drawn from bands of score, and written before the model is asked. Then the model answers them. Then some
of each cell, the pairs of a band with one answer, are drawn for people (metrics/audit/answer_cells.py). A process that
is killed at any time leaves what the same command continues from.
"""

from collections.abc import Callable

import numpy as np

from al_ray.apps.audit.folder import FIRST, FIRST_RECORD, AuditFolder, AuditOptions, Record
from al_ray.apps.audit.with_model.asking import Questioner
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.config.serialization import as_dict, differences
from al_ray.core.errors import WrongFolder
from al_ray.core.labels import YES
from al_ray.core.progress import OnProgress
from al_ray.core.rng import generator
from al_ray.core.scorer import Labels
from al_ray.core.task import Task
from al_ray.metrics.audit.answer_cells import allot_to_cells
from al_ray.metrics.audit.drawn_pairs import BandScores, DrawnPairs
from al_ray.metrics.audit.score_bands import bands
from al_ray.metrics.average_precision import Ints
from al_ray.oracles.llm.store import FOLDER
from al_ray.storage.lock import locked

Draw = Callable[[], tuple[Record, DrawnPairs, BandScores | None]]


def sample_two(
    folder: AuditFolder, asked: AuditOptions, task: Task, options: OracleConfig, draw: Draw, watch: OnProgress
) -> None:
    """Draw the first sample unless the folder has it, ask the model, and draw the pairs of people.

    draw: makes the first sample. DryRun in place of a request, if options.llm.dry_run. FolderInUse if another process
    samples here; WrongFolder if it has bought answers for another audit.
    """
    with locked(folder.path):
        if not _holds_first(folder, asked):
            record, pairs, scored = draw()
            assert scored is not None
            folder.keep_first(record, pairs, scored, task)
        record, drawn = folder.read_record(FIRST_RECORD), folder.drawn(FIRST)
        questioner = Questioner(options, folder.path, task, drawn, asked.seed)
        assert asked.budget is not None
        if options.llm.dry_run:
            raise questioner.show(asked.budget)
        answers, confidences = questioner.ask(watch)
        rows = people_rows(record, drawn, folder.scored(), answers)
        folder.keep_answers(answers, confidences, rows)
        strata = tuple(drawn.strata[row] for row in rows.tolist())
        people = DrawnPairs(drawn.pairs[rows], strata, drawn.ranks[rows], drawn.cosines[rows])
        folder.keep(record, people, None, task)


def people_rows(record: Record, drawn: DrawnPairs, scored: BandScores, answers: Labels) -> Ints:
    """Return the rows (k,) of the first sample that people answer, shuffled; answers: (n,) of the model."""
    asked, reach = record.asked, len(scored.cosines)
    assert asked.budget is not None
    total = record.total_pairs - len(scored.known_labels)
    cut = bands(reach, total, asked.top)
    called = answers == YES
    cells = [
        [np.flatnonzero((drawn.ranks >= start) & (drawn.ranks < stop) & (called == cell)) for cell in (False, True)]
        for start, stop in cut
    ]
    counts, ranked = [[len(cell) for cell in own] for own in cells], sum(stop <= reach for _, stop in cut)
    shares = allot_to_cells(asked.budget, [stop - start for start, stop in cut], counts, ranked)
    rows = [
        generator(asked.seed, f"audit-people-{start}", cell).permutation(own)[:share]
        for (start, _), of_band, of_cells in zip(cut, cells, shares, strict=True)
        for cell, (own, share) in enumerate(zip(of_band, of_cells, strict=True))
    ]
    return generator(asked.seed, "audit-people-order").permutation(np.concatenate(rows))


def _holds_first(folder: AuditFolder, asked: AuditOptions) -> bool:
    """Return whether the folder has the first sample of this audit; one of another that bought nothing is replaced."""
    if not (folder.path / FIRST_RECORD).exists():
        return False
    other = [*differences(as_dict(folder.read_record(FIRST_RECORD).asked), as_dict(asked))]
    if other and any((folder.path / FOLDER).glob("*.json")):
        raise WrongFolder(
            f"{folder.path} has bought answers for an audit with other options ({'; '.join(other)}); give another `out`"
        )
    return not other
