"""Read WikiQA as published (Yang et al. 2015): every question against every sentence of all splits (paper, 3.1.2)."""

from functools import partial
from pathlib import Path

import numpy as np

from al_ray.core.errors import BadFile
from al_ray.core.task import SPLITS, Corpus, Task
from al_ray.datasets.splitting import build_splits, whole_space
from al_ray.datasets.task_folder import sealed
from al_ray.datasets.tsv import OR_SKIP, BadRowLog, BadRows, Report, TextTable, find_fault, read_rows

HEADER = ("QuestionID", "Question", "DocumentID", "DocumentTitle", "SentenceID", "Sentence", "Label")


def read_wikiqa(folder: Path, bad_rows: BadRows) -> tuple[Task, Report]:
    """Read the task from a folder with WikiQA-{train,dev,test}.tsv.

    A question is identified by its QuestionID, a sentence by its SentenceID; the document title precedes the sentence,
    as in the paper's Figure 2. A pair with both labels is a positive.
    """
    questions, sentences, faults = TextTable(), TextTable(), BadRowLog(bad_rows, OR_SKIP)
    stated: list[tuple[int, int, int, bool]] = []
    fault = partial(find_fault, header=HEADER, required=(0, 1, 3, 4, 5))
    for number, name in enumerate(SPLITS):
        rows = read_rows(folder / f"WikiQA-{name}.tsv", HEADER, fault, faults)
        for id_, question, _, title, sentence_id, sentence, label in rows:
            right = sentences.row(sentence_id, f"{title} . {sentence}")
            stated.append((questions.row(id_, question), right, number, label == "1"))
    table = np.array(stated, dtype=np.int64).reshape(-1, 4)
    split_of = np.zeros(len(questions.texts), dtype=np.int64)
    split_of[table[:, 0]] = table[:, 2]
    in_other = table[split_of[table[:, 0]] != table[:, 2], 0]
    if len(in_other):
        # A question must not be in the training data of one split and the test data of another.
        id_ = list(questions.rows)[in_other.min()]
        raise BadFile(f"{folder}: question {id_} is in two splits; take the files as Microsoft published them")
    space = whole_space(len(questions.texts), len(sentences.texts), symmetric=False)
    keys, positive = space.keys(table[:, :2]), table[:, 3] == 1
    positives, negatives = np.unique(keys[positive]), np.setdiff1d(keys[~positive], keys[positive])
    splits = build_splits(space, split_of, space.pairs(positives), space.pairs(negatives))
    settled = {
        "question ids with a second text (the first is used)": questions.disagreements,
        "sentence ids with a second text (the first is used)": sentences.disagreements,
        "rows that repeat a pair": len(table) - len(positives) - len(negatives),
    }
    left, right = (Corpus(tuple(texts.rows), tuple(texts.texts)) for texts in (questions, sentences))
    return sealed("wikiqa", False, left, right, splits), Report(tuple(faults.skipped), settled)
