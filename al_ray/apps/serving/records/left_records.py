"""The fields that a model's matcher compares, and the known left texts among which a new one is matched."""

from dataclasses import dataclass

from al_ray.apps.matching.incremental.state import STATE, read_state
from al_ray.apps.matching.model import MatchingModel
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.records.record_text import corpus_texts
from al_ray.cluster.candidates.reference import Reference, Sides
from al_ray.cluster.candidates.reference_file import read_reference
from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.core.task import Corpus
from al_ray.datasets.task_folder import read_task
from al_ray.matcher.comparisons.records import Field
from al_ray.storage.databases.address import TableAddress


@dataclass(frozen=True)
class FieldNames:
    """The names of the fields of left texts, which are asked about, and of the known right ones; () for one column."""

    left: tuple[str, ...]
    right: tuple[str, ...]


def reference_of(model: MatchingModel) -> Reference:
    """Return the fields and frequencies of a model's matcher; BadOption for one that has none, as it is older."""
    assert model.model.matcher is not None
    if model.model.matcher.reference is None:
        raise BadOption(
            f"the matcher of {model.path} was trained by an earlier al_ray, which did not keep the frequencies of its "
            "texts, so its p would change with each new text; train it again (`al_ray.run`, with the labels by "
            "`al_ray.import_labels`), or match by `al_ray.match`"
        )
    return read_reference(model.model.matcher.reference)


def names_of(sides: Sides) -> FieldNames:
    """Return the names of the fields of both sides."""
    return FieldNames(tuple(one.name for one in sides.left), tuple(one.name for one in sides.right))


def stored_texts(corpus: Corpus, fields: tuple[Field, ...]) -> list[str]:
    """Return the texts of a corpus as a store keeps them; BadOption if it has not these fields."""
    typed, _ = Sides(fields, fields, True).typed(corpus, corpus)
    return corpus_texts(() if typed.fields is None else typed.fields.names, typed)


def left_texts(options: ServeOptions, model: MatchingModel, symmetric: bool) -> Corpus | None:
    """Return the known left texts: those of `known`, if it has both sides, or of the model's task.

    None where no left texts are needed: symmetric, of one set, or where scores do not depend on them. BadOption if
    there are none.
    """
    if symmetric or not model.knows_both_sides:
        return None
    known = options.known
    if not isinstance(known, TableAddress) and (known / "task.json").is_file():
        return read_task(known).left
    if not isinstance(known, TableAddress) and (known / STATE).is_file():
        return read_state(known)[1].left
    if model.run is None:
        raise BadOption(
            f"{option('known', options.known)} has the right texts alone, and {model.path}, a copy of a model, knows "
            "no left ones, on whose nearness its scores depend; give `known` a folder of matches of both tables "
            "(`al_ray.match`), or the run as `model`"
        )
    return model.task.left
