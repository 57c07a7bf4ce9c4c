"""Simulated audits, few: the same again, and what they are compared with is the truth."""

import json
import sys

import numpy as np
import pytest

from al_ray.core.rng import generator
from al_ray.core.scorer import Scorer
from studies import __main__ as studies
from studies.simulated_rankings import Ranking, draw_audit, draw_earlier, wikiqa_ranking
from studies.simulating import KINDS, TRAINED, bins_held, calibrate, shares


def test_a_ranking_has_its_counts_and_its_average_precision():
    ranking = Ranking(np.array([0.9, 0.8, 0.8, 0.2]), np.array([True, False, True, True]))
    assert ranking.counts.tolist() == [0, 1, 1, 2, 3]
    assert ranking.average_precision(np.arange(4)) == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)
    # p = 1/2 at 0.8, which two pairs have.
    assert [ranking.first(Scorer(10.0, -8.0), p) for p in (1.0, 0.6, 0.5, 0.0)] == [0, 1, 3, 4]
    row = shares(ranking, Scorer(10.0, -8.0))
    assert (row["0.5 <= p < 0.9"]["pairs"], row["0.5 <= p < 0.9"]["matches"]) == (3, 2)


def test_known_pairs_are_not_drawn_and_labels_are_the_truth():
    rng = generator(0, "x")
    ranking = KINDS["middling"].ranking(20_000, rng)
    known = draw_earlier(ranking, 50, 2, 1000, rng)
    audit, cosines, rows = draw_audit(ranking, 100, 1000, rng, known)
    assert (len(known), len(rows)) == (100, 100)
    assert not np.isin(rows, known).any()
    assert audit.labels.tolist() == ranking.matches[rows].tolist()
    assert audit.total == 20_000 - 100
    assert (cosines[audit.ranks < 1000] == audit.cosines[audit.ranks[audit.ranks < 1000]]).all()
    # With all labels every interval is the truth alone.
    every, cosines, _ = draw_audit(ranking, 20_000, 1000, rng, known[:0])
    assert len(set(bins_held(ranking, every, Scorer(30.0, -18.0), cosines, rng).values())) == 1
    assert calibrate(ranking, rng)[TRAINED]["p >= 0.9"]["pairs"]


def test_a_ranking_of_real_pairs_is_read_from_its_cache(tmp_path):
    np.savez(tmp_path / "w.npz", cosines=np.array([0.5, 0.25], dtype=np.float32), matches=np.array([True, False]))
    ranking = wikiqa_ranking(tmp_path / "none", tmp_path / "w.npz", 1)
    assert (ranking.cosines.tolist(), ranking.matches.tolist()) == ([0.5, 0.25], [True, False])


def test_wikiqa_is_ranked_by_the_cosines_of_the_untrained_encoder(tmp_path, minilm):
    header = "QuestionID\tQuestion\tDocumentID\tDocumentTitle\tSentenceID\tSentence\tLabel"
    texts = {"how are glaciers formed": "A glacier is formed by snow", "who wrote hamlet": "Hamlet is by Shakespeare"}
    for number, name in enumerate(("train", "dev", "test")):
        rows = [
            f"Q{number}{row}\t{question}\tD{row}\tTitle\tS{number}{row}\t{answer}\t1"
            for row, (question, answer) in enumerate(texts.items())
        ]
        (tmp_path / f"WikiQA-{name}.tsv").write_text("\r\n".join([header, *rows]) + "\r\n")
    ranking = wikiqa_ranking(tmp_path, tmp_path / "w.npz", 1)
    # Two questions of dev and six sentences, of which those of the other splits are no match although they are equal.
    assert len(ranking.cosines) == 12
    assert ranking.matches[:6].sum() == ranking.matches.sum() == 2
    assert (np.diff(ranking.cosines) <= 0).all()
    assert ranking.cosines[0] == pytest.approx(ranking.cosines[2], abs=1e-5)
    assert ranking.cosines[5] > 0.5 > ranking.cosines[6]
    assert wikiqa_ranking(tmp_path, tmp_path / "w.npz", 1).cosines.tolist() == ranking.cosines.tolist()


def test_the_tables_have_a_row_for_each_ranking_and_fit(tmp_path, monkeypatch, capsys):
    contents = []
    for name in ("a", "b"):
        line = f"simulate-audits --draws 2 --pairs 20000 --rankings middling wikiqa --out {tmp_path / name}"
        monkeypatch.setattr(sys, "argv", ["studies", *line.split()])
        studies.main()
        contents.append(json.loads((tmp_path / name).read_text()))
    assert contents[0] == contents[1]
    # Without its folder WikiQA is left out.
    assert [row["ranked"] for row in contents[0]["coverage"]] == [1_000, 100_000]
    assert len(contents[0]["reliability"]) == 4
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * (3 + 1 + 5)
