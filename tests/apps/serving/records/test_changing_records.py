"""Known records that come and go, beside records that were there from the start: the same candidates, to the bit."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from al_ray.apps.matching.model import MatchingModel, open_model
from al_ray.apps.serving.catalogue import Catalogue
from al_ray.apps.serving.records import gram_table, ways
from al_ray.apps.serving.records.known_records import Cells, Compared, KnownRecords, RecordSide
from al_ray.apps.serving.records.left_records import reference_of
from al_ray.apps.serving.records.stored_scores import StoredScores
from al_ray.core.id_order import id_key
from al_ray.core.rng import generator
from al_ray.core.vectors import Vectors, round_to_halves
from al_ray.matcher.model_file import read_model
from al_ray.storage.uri import storage_path
from tests.apps.matching.incremental.test_matched_into import ran

__all__ = ["ran"]
WORDS = ("amber", "basil", "cedar", "delta", "ember", "fjord")
Known = dict[str, tuple[Cells, np.ndarray]]


class Drawn:
    """Records of few words and vectors of few kinds, so that many scores are equal."""

    def __init__(self, halves: bool) -> None:
        self.rng, self.halves = generator(0, "changing-records"), halves
        self.kinds = self.unit(12)

    def unit(self, count: int) -> Vectors:
        drawn = self.rng.normal(size=(count, 16)).astype(np.float32)
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        return round_to_halves(drawn) if self.halves else drawn

    def record(self) -> tuple[Cells, np.ndarray]:
        name = " ".join(self.rng.choice(WORDS, self.rng.integers(1, 4)).tolist())
        vector = self.kinds[self.rng.integers(12)] if self.rng.random() < 0.5 else self.unit(1)[0]
        return (name, str(self.rng.integers(3)) if self.rng.random() < 0.8 else ""), vector

    def side(self, count: int) -> RecordSide:
        made = [self.record() for _ in range(count)]
        return RecordSide([cells for cells, _ in made], np.array([vector for _, vector in made]))

    def known(self, names: list[str]) -> Known:
        return {name: self.record() for name in names}


class Changing:
    """Records by id, of which some change."""

    def __init__(self, model: MatchingModel, known: Known, others: RecordSide | None) -> None:
        self.model, self.others = model, others
        self.records, self.catalogue = opened(model, known, others)

    def change(self, put: Known, removed: list[str]) -> None:
        gone = self.catalogue.remove([*removed, *put])
        vectors = np.array([vector for _, vector in put.values()]) if put else self.catalogue.vectors[:0]
        rows = self.catalogue.put(list(put), vectors)
        side = RecordSide([cells for cells, _ in put.values()], vectors, tuple(put))
        self.records.change(gone, rows, side, self.catalogue.vectors, self.catalogue.present)


def opened(model: MatchingModel, known: Known, others: RecordSide | None, store: Path | None = None):
    """Records that are there from the start, in the order of their ids."""
    ids = sorted(known, key=id_key)
    vectors = np.array([known[one][1] for one in ids])
    side = RecordSide([known[one][0] for one in ids], vectors, tuple(ids))
    assert model.model.matcher is not None
    forest = read_model(storage_path(model.model.matcher.path))
    records = KnownRecords(reference_of(model), forest, side, others, model.config.candidates)
    if store is None:
        records.use(records.find_best())
    else:
        StoredScores(store, records, side, others).use()
    catalogue = Catalogue(vectors.copy())
    catalogue.add_first(ids, [None] * len(ids))
    return records, catalogue


def shown(found: Compared, catalogue: Catalogue) -> list[tuple[str, float, list[float]]]:
    ids = [catalogue.ids[row] for row in found.rows.tolist()]
    return list(zip(ids, found.scores.tolist(), found.features.tolist(), strict=True))


def changes(drawn: Drawn, known: Known) -> Iterator[tuple[Known, list[str]]]:
    """Changes of a few and of many records: new, of other values, back as they were, and removed."""
    first = dict(known)
    for step in range(7):
        there = sorted(known)
        some = drawn.rng.choice(there, min(len(there), 25 if step == 3 else 4), replace=False).tolist()
        yield drawn.known([f"n{step}-{row}" for row in range(1 + 14 * (step == 2))] + some[:2]), some[2:]
    gone = [name for name in first if name not in known][:3]
    yield {name: first[name] for name in gone}, []
    yield {}, sorted(known)[:-2]
    yield drawn.known(["7", "007", "last"]), []


@pytest.mark.parametrize("few", [False, True], ids=["float16", "float32, of few"])
def test_records_that_came_and_went_have_the_candidates_of_records_that_were_there(ran, monkeypatch, few):
    halves = not few
    if few:
        monkeypatch.setattr(gram_table, "LATER", 3)
        monkeypatch.setattr(gram_table, "SHARE", 20)
        monkeypatch.setattr(ways, "SPARE", 1)
        monkeypatch.setattr(ways, "FRESH", 2)
    run, sides = ran
    model, drawn = open_model(run), Drawn(halves)
    others = drawn.side(30) if "right" in sides else None
    known = drawn.known([f"k{row}" for row in range(60)])
    asked = [drawn.record() for _ in range(6)]
    changing = Changing(model, known, others)
    for put, removed in changes(drawn, known):
        changing.change(put, removed)
        known |= put
        for name in removed:
            del known[name]
        fresh, catalogue = opened(model, known, others)
        for cells, vector in asked:
            found = shown(changing.records.candidates(cells, vector), changing.catalogue)
            expected = shown(fresh.candidates(cells, vector), catalogue)
            assert found == expected
            assert len(found) >= min(5, len(known))


def test_a_start_compares_what_is_new_alone_and_finds_what_all_pairs_give(ran, monkeypatch, tmp_path):
    run, sides = ran
    model, drawn = open_model(run), Drawn(False)
    others = drawn.side(30) if "right" in sides else None
    known = drawn.known([f"k{row}" for row in range(60)])
    # Two that are the same, of which one goes.
    known["k7"] = known["k8"]
    opened(model, known, others, tmp_path)
    asked = [drawn.record() for _ in range(6)]
    for put, removed in ((drawn.known(["n1", "k5", "0"]), ["k7", "k30"]), ({"n1": known["k8"]}, ["k5"]), ({}, [])):
        known |= put
        for name in removed:
            del known[name]
        with monkeypatch.context() as context:
            # Not all pairs are compared.
            context.setattr(KnownRecords, "find_best", None)
            found = opened(model, known, others, tmp_path)
        expected = opened(model, known, others)
        for cells, vector in asked:
            assert shown(found[0].candidates(cells, vector), found[1]) == shown(
                expected[0].candidates(cells, vector), expected[1]
            )
        assert len(list(tmp_path.glob("*/about.json"))) == 1
    # So many are new that all are compared.
    known = drawn.known([f"k{row}" for row in range(60)])
    records, catalogue = opened(model, known, others, tmp_path)
    plain = opened(model, known, others)
    cells, vector = asked[0]
    assert shown(records.candidates(cells, vector), catalogue) == shown(plain[0].candidates(cells, vector), plain[1])


def test_scores_that_an_earlier_al_ray_found_are_read(ran, monkeypatch, tmp_path):
    run, sides = ran
    model, drawn = open_model(run), Drawn(False)
    others = drawn.side(30) if "right" in sides else None
    known = drawn.known([f"k{row}" for row in range(60)])
    records, _ = opened(model, known, others, tmp_path)
    [folder] = [path.parent for path in tmp_path.glob("*/about.json")]
    for name in ("about.json", "floors.npy", "records.npy"):
        (folder / name).unlink()
    for number in range(4):
        array = np.load(folder / f"{number}.npy")
        np.save(folder / f"{number}.npy", array[:, : records.counts[number // 2].needed])
    with monkeypatch.context() as context:
        context.setattr(KnownRecords, "find_best", None)
        earlier, catalogue = opened(model, known, others, tmp_path)
    # Their lists are shorter: when one of them goes, those that it was in are made again.
    put, removed = drawn.known(["n1"]), sorted(known)[:9]
    gone = catalogue.remove([*removed, *put])
    vectors = np.array([vector for _, vector in put.values()])
    rows = catalogue.put(list(put), vectors)
    side = RecordSide([cells for cells, _ in put.values()], vectors, tuple(put))
    earlier.change(gone, rows, side, catalogue.vectors, catalogue.present)
    known |= put
    for name in removed:
        del known[name]
    fresh = opened(model, known, others)
    cells, vector = drawn.record()
    assert shown(earlier.candidates(cells, vector), catalogue) == shown(fresh[0].candidates(cells, vector), fresh[1])
