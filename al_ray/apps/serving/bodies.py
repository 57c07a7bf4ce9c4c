"""The bodies of requests and of answers, and in words what is wrong with a body, with its place."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from al_ray.apps.serving.answers import KnownMatch, MatchAnswer
from al_ray.datasets.tables.columns import trim_text


def _trimmed(text: str) -> str:
    """Return a text or an id without white space around it, as tables are read."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("has half of a character (a lone surrogate); send UTF-8")
    text = trim_text(text)
    if not text.strip():
        raise ValueError("is empty; give a text with a visible character")
    return text


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Text = Annotated[str, AfterValidator(_trimmed)]


class Body(BaseModel):
    """A body whose fields have the types that are named, and no others."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _require_one(texts: Sequence[Any], records: Sequence[Any]) -> None:
    if bool(texts) == bool(records):
        raise ValueError("give texts or records, one of both, with one entry at least")


class MatchBody(Body):
    """Texts, or records by field, to match with the known ones."""

    texts: Annotated[
        list[Text], Field(min_length=1), BeforeValidator(_as_list, json_schema_input_type=list[str] | str)
    ] = Field([], description="One text, or a list of texts.", examples=[["how do i swim"]])
    records: list[dict[str, Any]] = Field(
        [], description="For a model with a matcher of several fields, in place of texts: objects of values by field.",
        examples=[[{"name": "red lamp", "price": 17}]],
    )  # fmt: skip
    why: bool = Field(False, description="Say what each comparison of a matcher adds to the score of each match.")
    limit: int | None = Field(
        None, ge=1, description="Matches of each text at most; default and bound: `limit` of the service."
    )
    at_least: int = Field(0, ge=0, description="Answer only with this change included: a sequence that PUT returned.")

    @model_validator(mode="after")
    def _one_of_both(self) -> "MatchBody":
        _require_one(self.texts, self.records)
        return self


class KnownBody(Body):
    """A known text with its id."""

    id: Text
    text: Text


class KnownRecordBody(BaseModel):
    """A known record with its id, and its values by field beside it; a field that is left out is missing."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    id: Text

    @property
    def record(self) -> dict[str, Any]:
        """Return the values by field."""
        return dict(self.model_extra or {})


class PutBody(Body):
    """Texts or records to add, or to put in the place of those with the same ids."""

    texts: list[KnownBody] = Field([], min_length=1, description="Texts with their ids.")
    records: list[KnownRecordBody] = Field(
        [], description="For a model with a matcher of several fields, in place of texts: an id, and values by field.",
        examples=[[{"id": "r-17", "name": "red lamp", "price": 17}]],
    )  # fmt: skip

    @model_validator(mode="after")
    def _one_of_both(self) -> "PutBody":
        _require_one(self.texts, self.records)
        return self


class DeleteBody(Body):
    """Ids of texts to remove."""

    ids: list[Text] = Field(min_length=1)


class Part(BaseModel):
    """A comparison in plain words, its value, and what it adds to the score; below 0 it speaks against a match."""

    comparison: str
    value: str
    adds: float


class Why(BaseModel):
    """Why a record matches: the score is the base and what all parts add, the largest first."""

    base: float
    parts: list[Part]


class Match(BaseModel):
    """A known text that matches. probability: null if the model is not calibrated. cluster: null if there is none.

    why: only if the request asked for it.
    """

    id: str
    score: float
    probability: float | None
    cluster: int | None
    why: Why | None = None


class Answer(BaseModel):
    """Of each text its matches, the best first; all by one model and the known texts after change `sequence`."""

    model: str = Field(description="Digest of the weights, the scorer and the cutoff.")
    sequence: int
    results: list[list[Match]]

    @classmethod
    def of(cls, answer: MatchAnswer) -> "Answer":
        """Return the answer to a question whose results are there; `why` is set in matches that have one."""
        results = [[Match(**_set_fields(one)) for one in matches] for matches in answer.found]
        return cls(model=answer.model, sequence=answer.sequence, results=results)


def _set_fields(match: KnownMatch) -> dict[str, Any]:
    fields = asdict(match)
    return fields if match.why is not None else {name: fields[name] for name in fields if name != "why"}


class PutAnswer(BaseModel):
    """Counts of texts that are on disk now. sequence: of the last change."""

    sequence: int
    added: int
    changed: int
    same: int


class DeleteAnswer(BaseModel):
    """Counts of ids whose texts were removed, and of those that were not there. sequence: of the last change."""

    sequence: int
    removed: int
    unknown: int


class TableAnswer(BaseModel):
    """The table of all known texts that was written. sequence: the last change in it.

    side: the option of jobs.match --into that takes it: --left of one set of texts, --right of two. text_columns,
    id_column: its columns, for the options of these names.
    """

    sequence: int
    path: str
    texts: int
    side: str
    text_columns: list[str]
    id_column: str


class Problem(BaseModel):
    """What is wrong, and where."""

    error: str


def place_of(location: Sequence[Any]) -> str:
    """Return the place of an error in a body: ("body", "texts", 3, "id") -> "texts[3].id"."""
    place = ""
    for part in location[1:] if location[:1] in (("body",), ["body"]) else location:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else str(part)
    return place


def describe_errors(errors: Sequence[Mapping[str, Any]]) -> str:
    """Return the first error of a body in words, with its place, and how many more there are."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return f"body: no JSON ({first.get('ctx', {}).get('error', 'invalid')}) at character {first['loc'][-1]}"
    if isinstance(first.get("input"), bytes):
        return "body: was not sent as JSON; send it with the header Content-Type: application/json"
    said = str(first["msg"]).removeprefix("Value error, ")
    more = f" (and {len(errors) - 1:,} more errors)" if len(errors) > 1 else ""
    return f"{place_of(first['loc']) or 'body'}: {said}{more}"


def repeated(values: Sequence[str], name: str) -> str | None:
    """Return what is wrong if a value is given twice, with its place; None if none is."""
    first = dict[str, int]()
    for place, value in enumerate(values):
        if first.setdefault(value, place) != place:
            return f"{name.format(place)}: {value[:100]!r} is also {name.format(first[value])}; give each id once"
    return None
