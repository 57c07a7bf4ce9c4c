"""The pages of golden records: a list of clusters, and one cluster with a form for each field."""

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from al_ray.apps.annotating import views
from al_ray.apps.annotating.access import Visitor
from al_ray.apps.annotating.annotator import Annotator, ExtraPages
from al_ray.apps.annotating.web import page_values
from al_ray.apps.matching.golden.editor import GoldenEditor

LARGEST, MOST_UNUSED, MOST_VALUES = 50, 200, 50
"""Number of clusters, of overrides that are not in effect, and of values of a field on one page."""
CHANGES = ("give", "take back")


def golden_pages(editor: GoldenEditor) -> ExtraPages:
    """Return the pages on which people override values of golden records."""

    def clusters(annotator: Annotator, visitor: Visitor, request: Request) -> str:
        return _clusters_page(editor, request.query_params.get("find", ""), _values(annotator, visitor))

    def cluster(annotator: Annotator, visitor: Visitor, request: Request) -> str:
        return _cluster_page(editor, int(request.path_params["number"]), _values(annotator, visitor))

    def override(annotator: Annotator, visitor: Visitor, form: dict[str, str]) -> str:
        return _override(editor, visitor.name, form)

    return ExtraPages(
        (("/golden", "Golden records"),),
        {"/golden": clusters, "/golden/{number:int}": cluster},
        {"/golden": (override, ("cluster", "field", "value", "change", "request"))},
    )


def _values(annotator: Annotator, visitor: Visitor) -> dict[str, Any]:
    return {"person": visitor.name, **page_values(annotator, visitor)}


def _clusters_page(editor: GoldenEditor, find: str, values: dict[str, Any]) -> str:
    """Return the page of clusters; find: number of a cluster or id of a record that is looked for, "" for none."""
    found = editor.cluster_of(find) if find else None
    unused = [one for one in editor.standing if one.state != "in effect"]
    return views.render(
        "golden",
        find=find,
        found=found,
        # An id may be a number, too.
        number=int(find) if find.isdecimal() and len(find) < 19 and editor.has(int(find)) else None,
        largest=editor.largest(LARGEST),
        unused=unused[:MOST_UNUSED],
        unused_count=len(unused),
        in_effect=len(editor.standing) - len(unused),
        **values,
    )


def _cluster_page(editor: GoldenEditor, number: int, values: dict[str, Any]) -> str:
    if not editor.has(number):
        raise HTTPException(404, f"there is no cluster {number}")
    fields, size = editor.view(number), len(editor.members(number))
    return views.render("golden_cluster", number=number, size=size, fields=fields, most=MOST_VALUES, **values)


def _override(editor: GoldenEditor, person: str, form: dict[str, str]) -> str:
    if not form["cluster"].isdecimal() or len(form["cluster"]) > 18:
        raise HTTPException(400, f"the cluster is {form['cluster'][:40]!r}, which is no number")
    if form["change"] not in CHANGES:
        raise HTTPException(400, f"the change is {form['change'][:40]!r}, not {' or '.join(CHANGES)}")
    cluster, value = int(form["cluster"]), form["value"].strip()
    editor.override(cluster, form["field"], value if form["change"] == "give" else None, person, form["request"])
    return f"/golden/{cluster}"
