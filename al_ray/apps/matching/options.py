"""Options of the command match."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from al_ray.apps.matching.assignment_rules import ASSIGNMENTS, Assignment
from al_ray.apps.matching.cascade.options import CascadeOptions
from al_ray.apps.matching.clusters.canonical import CanonicalRule
from al_ray.apps.matching.golden.rules import GoldenRules, golden_help
from al_ray.core.config.bounds import Between, Group, check_bounds
from al_ray.core.config.encoder import MOST_UNKNOWN, MostUnknown
from al_ray.core.config.index import NEIGHBOURS, PROBES, Neighbours, Probes
from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.datasets.tables.format_options import (
    ColumnNames,
    DatabaseTable,
    FieldRules,
    TablePaths,
    database_table,
    normalize_tables,
)
from al_ray.datasets.tables.options import column_names
from al_ray.datasets.tables.reader import Format
from al_ray.datasets.tsv import BadRows
from al_ray.metrics.thresholds import Guarantee, Rule

Clustering = Literal["components", "average"]
CUTOFF, TABLE = Group("cutoff"), Group("table")
MOST_MATCHES = 1_000_000_000


def assignments_help() -> str:
    """Return the --help of --assign."""
    rules = "; ".join(f"{name}: {rule.summary}" for name, rule in ASSIGNMENTS.items())
    return f"Which candidates are matches. {rules}. Default: mutual for two sides without --best, else all."


@dataclass(frozen=True)
class MatchSearchConfig:
    """The search for pairs that may match."""

    kind: Literal["exact", "knn"] = "exact"
    """exact: compare all pairs. knn: compare every left text with its nearest right texts alone, found by a Faiss
    index. For millions of texts; not with --into."""
    neighbours: Neighbours = NEIGHBOURS
    """Right texts with which knn compares each left text. --assign best and mutual need fewer: 1, and 1 more for each
    pair of the text that was labelled no."""
    index: str = "Flat"
    """Index of knn: a Faiss index-factory string. Flat finds all of the nearest; IVF1000,Flat is quicker and misses
    some. Which share it finds is measured on 256 texts and written to match.json."""
    nprobe: Probes = PROBES
    """Cells of an IVF index that are searched for each left text."""

    def __post_init__(self) -> None:
        """Raise BadOption for an empty name, or for an index that exact search does not use."""
        if not self.index:
            raise BadOption("`search.index` is empty; give an index, such as Flat")
        if self.kind == "exact" and replace(self, kind="knn") != MatchSearchConfig("knn"):
            raise BadOption(
                "`search.neighbours`, `search.index` and `search.nprobe` go with `search.kind='knn'`; add it"
            )


@dataclass(frozen=True, kw_only=True)
class CutoffOptions:
    """The lowest score of a match: one of several ways to give it, or none."""

    at_score: Annotated[float | None, CUTOFF, Between(-2, 2)] = None
    """Lowest score of a match: the cosine, or with --scoring.neighbourhood the cosine minus what that option
    subtracts."""
    at_cosine: Annotated[float | None, CUTOFF, Between(-1, 1)] = None
    """Lowest cosine of a match: --at-score of a model whose scores are cosines, and refused for others."""
    at_p: Annotated[float | None, CUTOFF, Between(0, 1)] = None
    """Lowest probability of a match, of a model whose probabilities were calibrated (docs/audit.md). Of a matcher that
    is not calibrated: its lowest p."""
    at_boundary: Annotated[bool, CUTOFF] = False
    """Match at or above the model's boundary: the score at which p is 1/2. Without calibration p is no probability."""
    precision: Annotated[float | None, CUTOFF, Between(0, 1)] = None
    """Match at the threshold that evaluate --threshold-for precision=P (or audit estimate) stored with the model."""
    recall: Annotated[float | None, CUTOFF, Between(0, 1)] = None
    """Match at the threshold that evaluate --threshold-for recall=R stored with the model."""
    costs: Annotated[tuple[float, float] | None, CUTOFF] = None
    """Match at the threshold that evaluate --threshold-for costs=MISS,ALARM stored with the model: --costs 10 1."""
    ranked_recall: Annotated[float | None, CUTOFF, Between(0, 1)] = None
    """With --guarantee: match at the threshold that audit estimate --threshold-for ranked-recall=R stored."""
    guarantee: Annotated[Guarantee, CUTOFF] = None
    """With --precision, --recall, --ranked-recall or --costs: take the threshold that was stored with this --guarantee
    of evaluate or of audit estimate (docs/guarantees.md)."""

    def __post_init__(self) -> None:
        """Raise BadOption for a value out of bounds, or for more than one cutoff."""
        check_bounds(self)
        given = [name for name, value in self.cutoffs.items() if value is not None and value is not False]
        if len(given) > 1:
            raise BadOption(f"{' and '.join(f'`{name}`' for name in given)} are two cutoffs; give one of them")
        if self.guarantee is not None and self.rule is None:
            raise BadOption("`guarantee` goes with `precision`, `recall`, `ranked_recall` or `costs`; add one of them")
        if self.ranked_recall is not None and self.guarantee is None:
            raise BadOption("`ranked_recall` goes with `guarantee`; add it, such as `guarantee=0.95`")

    @property
    def rule(self) -> Rule | None:
        """Return the rule whose stored threshold is the cutoff; None for another cutoff."""
        if self.costs is not None:
            return Rule("costs", self.costs, self.guarantee)
        if self.precision is not None:
            return Rule("precision", (self.precision,), self.guarantee)
        if self.recall is not None:
            return Rule("recall", (self.recall,), self.guarantee)
        return None if self.ranked_recall is None else Rule("ranked-recall", (self.ranked_recall,), self.guarantee)

    @property
    def cutoffs(self) -> dict[str, Any]:
        """Return the options that give a cutoff, by their names."""
        return {
            "at_score": self.at_score, "at_cosine": self.at_cosine, "at_p": self.at_p, "at_boundary": self.at_boundary,
            "precision": self.precision, "recall": self.recall, "costs": self.costs,
            "ranked_recall": self.ranked_recall,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MatchOptions(CutoffOptions, CascadeOptions):
    """Which texts are matched, above which score, and which of the pairs above it are matches."""

    left: TablePaths | None = None
    """Table of texts (a file or a table of a database, or several with the same columns), or a task folder. Alone: its
    texts are matched with each other."""
    right: TablePaths | None = None
    """Table of the texts to match with those of --left: a file, or several."""
    complete: bool = False
    """With --into: the tables are complete, so known texts whose ids are not in them are removed."""
    split: Literal["train", "dev", "test"] | None = None
    """With a task folder: the split whose texts are matched. Default: train."""
    text_columns: ColumnNames | None = None
    """Text columns, as in prepare pairs. Default: those of the task on which the model was trained."""
    id_column: str | None = None
    """Column of the ids. Default: that of the task on which the model was trained; else the row number from 0."""
    right_text_columns: ColumnNames | None = None
    """Columns of the text in --right; --text-columns when not given."""
    right_id_column: str | None = None
    """Column of the ids in --right; --id-column when not given."""
    assign: Assignment | None = field(default=None, metadata={"help": assignments_help()})
    clusters: Clustering | None = None
    """How matches make clusters. components: texts that a chain of matches connects; average: average linkage, which
    does not join by chains, of one table. Default: components."""
    always: ColumnNames | None = None
    """Columns of both tables: two texts with equal values in all of them match, whatever their score, unless people
    labelled them no; an empty value is equal to none. For numbers that identify, such as a tax number."""
    at_most_one: str | None = None
    """Column of both tables, such as source: a cluster has at most one text of each value, unless people labelled such
    texts yes. Matches join clusters in the order of their scores; an empty value is of no source."""
    split_bridges: Annotated[float | None, Between(-2, 2)] = None
    """Do not join clusters by a match below this score that alone holds two parts of two or more texts together."""
    canonical: str | None = None
    """Which text stands for a cluster. score: that of the highest mean score to the others; least-id; complete: the
    most text columns that are not empty, then the most characters; highest:COLUMN, lowest:COLUMN: by number, or by text
    such as 2026-11-27; first:COLUMN=VALUE,VALUE: of the first of these values. Default: score."""
    golden: FieldRules | None = field(default=None, metadata={"help": golden_help()})
    best: Annotated[int | None, CUTOFF, Between(1, MOST_MATCHES)] = None
    """Match the N pairs with the highest scores."""
    search: MatchSearchConfig = field(default_factory=MatchSearchConfig)
    """Which pairs are compared."""
    most: Annotated[int, Between(1, MOST_MATCHES)] = 10_000_000
    """Most pairs above the cutoff: with more, the command ends with an error and writes no matches. If already the low
    end of an estimate from 1,000 texts is higher, the pairs are not searched."""
    most_unknown: MostUnknown = MOST_UNKNOWN
    """Refuse texts of which the encoder does not know more than this share of the tokens; 1 to refuse none
    (docs/languages.md)."""
    texts: bool = True
    """Write the texts of the pairs, too."""
    why: bool = False
    """Say why each pair matches: what each comparison of a matcher adds to p, as a column of matches.parquet, in plain
    words in matches.csv, and as bars in matches.html. For a run with --matcher on (docs/matcher.md)."""
    escape_formulas: bool = False
    """In CSV files, put a quote before cells that a spreadsheet would run as a formula. These texts and ids then differ
    from those of the tables; those in the Parquet files do not."""
    matches_table: DatabaseTable | None = None
    """Also write the matches into a table of a database, such as duckdb:shop.db?table=matches: all rows or none, and in
    place of those of an earlier call with the same folder alone (docs/tables.md)."""
    clusters_table: DatabaseTable | None = None
    """Also write the clusters into a table of the same database, in the same transaction."""
    drift: bool = True
    """Compare the texts with those of training, and warn where they differ much (docs/match.md)."""
    suggest: Annotated[int | None, Between(1, 10_000)] = None
    """Write N pairs that are worth labelling next to suggested.csv: without a label, close to the cutoff, and those of
    texts unlike training first."""
    format: Annotated[Format | None, TABLE] = None
    """Format of all tables, as in prepare pairs. Default of all options of the table: as for the task, if its table is
    the same kind of file, else as in prepare pairs."""
    delimiter: Annotated[str | None, TABLE] = None
    """Column delimiter of CSV and TSV files."""
    quoting: Annotated[Literal["standard", "none"] | None, TABLE] = None
    """none: in CSV and TSV files a quote is an ordinary character."""
    encoding: Annotated[str | None, TABLE] = None
    """Encoding of CSV, TSV and JSON lines files."""
    header: Annotated[bool | None, TABLE] = None
    """--no-header: CSV and TSV files have no header, and columns are given by number, from 0."""
    bad_rows: Annotated[BadRows, TABLE] = "fail"
    """What to do with a bad row: fail with its line, or skip it and list it."""

    def __post_init__(self) -> None:
        """Raise BadOption for a value out of bounds, or for more than one cutoff."""
        super().__post_init__()
        normalize_tables(self, "left", "right")
        for name in ("matches_table", "clusters_table"):
            address = getattr(self, name)
            object.__setattr__(self, name, None if address is None else database_table(str(address)))
        self.check_oracle()
        if self.left is None and self.right is None:
            raise BadOption("no texts to match are given; give `left=FILE`")
        for name, value in (("`at_most_one`", self.at_most_one), ("`split_bridges`", self.split_bridges)):
            if self.clusters == "average" and value is not None:
                raise BadOption(f"{name} goes with `clusters='components'`; leave out one of the two")
        if self.canonical is not None:
            CanonicalRule.parse(self.canonical)
        if self.golden is not None:
            GoldenRules.parse(self.golden)
        if self.suggest is not None and not self.drift:
            raise BadOption(
                "`suggest` prefers texts unlike training, which `drift=False` does not look for; leave one of them out"
            )
        if self.suggest is not None and self.split not in (None, "train"):
            raise BadOption(
                f"`suggest` gives pairs to train on, and those of {self.split} are held out; leave out `suggest`, or "
                "`split`"
            )
        if self.assign is not None and self.assign not in ASSIGNMENTS:
            raise BadOption(f"`assign` is {self.assign!r}; give one of {', '.join(ASSIGNMENTS)}")
        if self.assign is not None and ASSIGNMENTS[self.assign].of_best and self.best is not None:
            raise BadOption(
                f"`best=N` takes the N pairs of all; with {option('assign', self.assign)} give another cutoff, or none"
            )

    @property
    def always_columns(self) -> tuple[str, ...]:
        """Return the columns of --always."""
        return () if self.always is None else column_names("`always`", self.always)

    @property
    def cutoffs(self) -> dict[str, Any]:
        """Return the options that give a cutoff, by their names."""
        return {**super().cutoffs, "best": self.best}
