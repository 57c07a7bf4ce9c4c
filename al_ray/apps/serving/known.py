"""Read `known` (a table, a task folder, or matches with clusters), and count what the encoder knows of its texts."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from al_ray.apps.matching.clusters.nodes import Nodes
from al_ray.apps.matching.folder import RECORD
from al_ray.apps.matching.incremental.state import STATE, read_state
from al_ray.apps.matching.model import MatchingModel, needs_two_sides
from al_ray.apps.matching.texts import table_source
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.records.left_records import left_texts, reference_of, stored_texts
from al_ray.apps.serving.store import Source, make_store
from al_ray.apps.serving.text_lines import FIX, KnownText, Texts, texts_digest
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.naming import option
from al_ray.core.task import Corpus, Task
from al_ray.datasets.tables.to_task import read_corpus
from al_ray.datasets.task_folder import read_task
from al_ray.encoders.encoder import TextEncoder
from al_ray.encoders.prompts import Side
from al_ray.encoders.tokens import Tokens
from al_ray.search.coverage import ChangingTexts, Coverage, CoverageCount, check_coverage, prompt_length
from al_ray.storage.files import read_json, write_json


def read_known(options: ServeOptions, model: MatchingModel) -> tuple[Source, Texts]:
    """Return the known texts by id, and what they were read from.

    Known texts are right texts: those of a table are read by the columns of the right table of the model's task, if it
    has two sides; of a task and of matches between two tables the right texts are taken. BadOption or BadFile for what
    is none of these, or for a model that cannot match it.
    """
    known = options.known
    if (known / "task.json").is_file():
        symmetric, texts = _of_task(read_task(known), None, model)
    elif (known / STATE).is_file():
        state, task = read_state(known)
        # Known texts are right ones, which follow the left ones.
        symmetric, texts = _of_task(task, state.clusters[Nodes(task).first_right :].tolist(), model)
    elif (known / RECORD).is_file():
        raise BadOption(
            f"{option('known', known)} has matches and not their texts, because it was made of a task folder or with "
            "`MatchOptions.search.kind='knn'`; give `known` that task folder, or the table"
        )
    else:
        if model.scores_both_sides and model.run is None:
            raise BadOption(
                f"{model.path} is a copy of a model, which does not say whether it matches one table or two, and its "
                "scores depend on that; give `known` a folder of matches (`al_ray.match`), or the run as `model`"
            )
        symmetric = _matches_one_set(model)
        texts = _texts(_table(options, model, symmetric), None, model)
    check_model_of_one_set(model, symmetric)
    matched = model.model.matcher is not None
    return Source(str(known), texts_digest(texts), symmetric, matcher=matched), texts


def _matches_one_set(model: MatchingModel) -> bool:
    """Return whether a model matches one set of texts with itself, if there is nothing else to tell."""
    if model.model.matcher is not None:
        return reference_of(model).sides.symmetric
    return not needs_two_sides(model.model, model.config) and (model.run is None or model.task.symmetric)


def check_model_of_store(model: MatchingModel, source: Source) -> None:
    """Raise BadOption for a model that cannot match the texts of a store."""
    if source.matcher != (model.model.matcher is not None):
        kind, other = (
            ("records for a matcher", "none") if source.matcher else ("texts", "a matcher, which needs records")
        )
        raise BadOption(f"the store holds {kind}, and {model.path} has {other}; give another `store`")
    check_model_of_one_set(model, source.symmetric)
    if model.knows_both_sides and not source.symmetric and not source.left:
        raise BadOption(
            f"the store has no left texts, on whose nearness the scores of {model.path} depend "
            "(`RunConfig.scoring.neighbourhood_sides='both'`); give another `store`"
        )


def check_model_of_one_set(model: MatchingModel, symmetric: bool) -> None:
    """Raise BadOption for a model that can only match two sets of texts, if the known texts are one set's."""
    if model.model.matcher is not None and symmetric != reference_of(model).sides.symmetric:
        trained, known = ("two tables", "one") if symmetric else ("one table", "two")
        raise BadOption(
            f"the matcher of {model.path} was trained on {trained}, and the known texts are of {known}; give `known` "
            "texts like those of its run"
        )
    if symmetric and needs_two_sides(model.model, model.config):
        raise BadOption(
            f"{model.path} compares left texts with right ones (`RunConfig.scoring.neighbourhood` or "
            "`prompt_right`), and the known texts are of one set; give `known` the right texts as a table"
        )


def _of_task(task: Task, clusters: list[int] | None, model: MatchingModel) -> tuple[bool, Texts]:
    if task.rule is not None:
        raise BadOption(
            "the task of `known` has pairs that cannot match (`OwnTexts.same` or `different`), which a request cannot "
            "tell; match them by `al_ray.match`"
        )
    return task.symmetric, _texts(task.right, clusters, model)


def _table(options: ServeOptions, model: MatchingModel, symmetric: bool) -> Corpus:
    if options.known.is_dir():
        raise BadOption(
            f"{option('known', options.known)} is a folder without a task or matches of tables; give a table, a task "
            "folder, or a folder that `al_ray.match` wrote"
        )
    own = options.for_matching() if symmetric else options.for_matching(right=options.known)
    source = table_source(own, model.table_options, model.config.max_length)
    if source.same is not None or source.different is not None:
        raise BadOption(
            f"{model.path} matches under conditions (`OwnTexts.same` or `different`), which a request cannot tell; "
            "match by `al_ray.match`"
        )
    if not symmetric:
        source = replace(
            source, right=None, right_text_columns=None, right_id_column=None,
            text_columns=source.right_text_columns or source.text_columns,
            id_column=source.right_id_column or source.id_column,
        )  # fmt: skip
    try:
        return read_corpus(source)[0]
    except BadFile as error:
        raise BadFile(
            f"{error} (`al_ray.serve` has few options of tables; `al_ray.match` has all: match the table into a folder "
            "by `al_ray.match`, and give `known` that folder)"
        ) from error


def fill_store(options: ServeOptions, model: MatchingModel) -> None:
    """Make the store of the known texts, and of the left ones where scores depend on them."""
    source, texts = read_known(options, model)
    make_store(options.store, source, texts, read_left(options, model, source.symmetric))


def read_left(options: ServeOptions, model: MatchingModel, symmetric: bool) -> Texts | None:
    """Return the known left texts, among which a new one is matched; None where scores do not depend on them.

    symmetric: whether there is one set of texts. BadOption if they are not known.
    """
    left = left_texts(options, model, symmetric)
    if left is None:
        return None
    texts = left.texts if model.model.matcher is None else stored_texts(left, reference_of(model).sides.left)
    return {one: KnownText(text) for one, text in zip(left.ids, texts, strict=True)}


def _texts(corpus: Corpus, clusters: list[int] | None, model: MatchingModel) -> Texts:
    texts = corpus.texts
    if model.model.matcher is not None:
        texts = stored_texts(corpus, reference_of(model).sides.right)
    rows = zip(corpus.ids, texts, clusters or [None] * len(corpus), strict=True)
    return {one: KnownText(text, cluster) for one, text, cluster in rows}


class KnownCoverage:
    """What the encoder sees of the known texts of a store, from which texts go and into which texts come."""

    def __init__(self, encoder: TextEncoder, side: Side, most_unknown: float) -> None:
        """side: of the known texts. most_unknown: the highest share of unknown tokens, in [0, 1]."""
        self._encoder, self._most = encoder, most_unknown
        self._side: Side = side
        self._prompt, self._first = prompt_length(encoder, side), self._count()
        self._texts: ChangingTexts | None = None

    def add(self, tokens: Tokens) -> None:
        """Count the next of the texts that are there at the start."""
        self._first.add(tokens, self._prompt)

    def check(self, texts: Sequence[str], path: Path) -> None:
        """Raise BadOption if the encoder knows too little of the texts, all of which were added.

        But not if it served this store before under the same limit (path): a replica that is started again must not be
        refused, because removing texts can raise the share.
        """
        found = self._first.result(texts)
        self._texts = ChangingTexts(texts, self._coverage, found)
        is_served = path.exists() and self._most >= read_json(path, {"most_unknown": float}, FIX)["most_unknown"]
        check_coverage(found, replace(self._encoder.config, most_unknown=1.0 if is_served else self._most))
        write_json(path, {"most_unknown": float(self._most)})

    def refusal(self, come: Sequence[str], go: Sequence[str]) -> str:
        """Return why texts must not come in place of others, "" if they may; a lower share is never refused."""
        assert self._texts is not None
        share = self._texts.share_after(come, go)
        if share <= max(self._most, self._texts.share):
            return ""
        return (
            f"with these texts the encoder {self._encoder.config.encoder} would not know {share:.0%} of the tokens of "
            f"the known texts, and `most_unknown` of the service allows {self._most:g}; nothing was stored. Leave out "
            "the texts in scripts that it does not know, or serve a model for their language (docs/languages.md)"
        )

    def change(self, come: Sequence[str], go: Sequence[str]) -> None:
        """Take over a change."""
        assert self._texts is not None
        self._texts.change(come, go)

    def _count(self) -> CoverageCount:
        return CoverageCount(self._encoder.unknown, self._encoder.special, self._encoder.config.max_length)

    def _coverage(self, texts: Sequence[str]) -> Coverage:
        count = self._count()
        count.add(self._encoder.tokenise(texts, self._side), self._prompt)
        return count.result(texts)
