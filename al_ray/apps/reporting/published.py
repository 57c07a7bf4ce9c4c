"""Figures printed in the paper, shown next to ours: BERT-base, all of QQP and WikiQA, means over three seeds.

Mussmann, Jia and Liang (2020), https://aclanthology.org/2020.findings-emnlp.305/. Shares are in [0, 1].
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

PAPER_MODEL = "paper: BERT-base, full data"


@dataclass(frozen=True)
class Result:
    """Test figures of a strategy (Tables 3 and 5) and the positives it collected (Table 4; None if not printed)."""

    precision_at_recall_20: float
    average_precision: float
    positives: int | None = None


@dataclass(frozen=True)
class Size:
    """A split (Table 1); `pairs` as printed."""

    positives: int
    pairs: str
    stated_negatives: int
    near_negatives: int | None = None


@dataclass(frozen=True)
class Efficiency:
    """Section 5.6, on dev: the AP of static retrieval with all labels, and where uncertainty sampling surpassed it."""

    static: float
    uncertainty: float
    labels: int


@dataclass(frozen=True)
class PaperCrossEncoder:
    """A cross-encoder ("concatenation model" in the paper) trained on the stated pairs (Table 2).

    heuristic: on stated test pairs, accuracy and F1 (QQP) or clean MAP and a-F1 (WikiQA); result: over all pairs.
    """

    heuristic: tuple[float, float]
    result: Result


@dataclass(frozen=True)
class PaperResults:
    """Figures of one data set. stated: Table 2, by model; collected: CONCATBERT on collected labels (Table 6)."""

    sizes: Mapping[str, Size]
    results: Mapping[str, Result]
    labels: int
    stated: Mapping[str, PaperCrossEncoder]
    efficiency: Efficiency | None = None
    collected: Mapping[str, Result] = field(default_factory=dict[str, Result])


PAPER: Mapping[str, PaperResults] = {
    "qqp": PaperResults(
        sizes={  # Table 1
            "train": Size(124_625, "38B", 132_796),
            "dev": Size(60_510, "8.8B", 61_645, 13_100_000),
            "test": Size(43_413, "8.5B", 60_575, 12_800_000),
        },
        results={  # Tables 3, 4 and 5
            "random": Result(0.047, 0.028, 1),
            "stated": Result(0.293, 0.154),
            "static": Result(0.492, 0.251, 16_422),
            "adaptive": Result(0.591, 0.324, 103_181),
            "uncertainty": Result(0.602, 0.325, 87_594),
            "stratified-match": Result(0.351, 0.190),
            "stratified-all": Result(0.416, 0.222),
        },
        labels=232_100,  # Table 4, last row
        stated={  # Table 2
            "BERT": PaperCrossEncoder((0.825, 0.773), Result(0.030, 0.024)),
            "XLNet": PaperCrossEncoder((0.830, 0.779), Result(0.017, 0.014)),
            "RoBERTa": PaperCrossEncoder((0.844, 0.802), Result(0.025, 0.020)),
            "ALBERT": PaperCrossEncoder((0.796, 0.730), Result(0.035, 0.019)),
        },
        collected={  # Table 6
            "stated": Result(0.030, 0.024),
            "static": Result(0.046, 0.019),
            "stratified-match": Result(0.290, 0.164),
            "uncertainty": Result(0.236, 0.089),
        },
        efficiency=Efficiency(0.219, 0.226, 16_640),  # 5.6
    ),
    "wikiqa": PaperResults(
        sizes={  # Table 1
            "train": Size(1_040, "56M", 19_320),
            "dev": Size(140, "7.8M", 2_593, 29_511),
            "test": Size(293, "17M", 5_872, 63_136),
        },
        results={  # Tables 3, 4 and 5
            "random": Result(0.013, 0.013, 1),
            "stated": Result(0.007, 0.022),
            "static": Result(0.139, 0.082, 169),
            "adaptive": Result(0.271, 0.151, 757),
            "uncertainty": Result(0.324, 0.201, 742),
            "stratified-match": Result(0.132, 0.085),
            "stratified-all": Result(0.137, 0.091),
        },
        labels=16_640,  # Table 4, last row
        stated={  # Table 2
            "BERT": PaperCrossEncoder((0.799, 0.459), Result(0.065, 0.024)),
            "XLNet": PaperCrossEncoder((0.805, 0.467), Result(0.010, 0.010)),
            "RoBERTa": PaperCrossEncoder((0.846, 0.536), Result(0.034, 0.023)),
            "ALBERT": PaperCrossEncoder((0.782, 0.418), Result(0.007, 0.009)),
        },
    ),
}


def paper_results(task: str) -> PaperResults | None:
    """Return the paper's figures for the task of this name, or None."""
    return PAPER.get(task.lower())
