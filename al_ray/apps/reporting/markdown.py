"""summary.md of a report: its tables, with links to its figures."""

from collections.abc import Sequence

from al_ray.apps.reporting.plots.learning_curves import Picture
from al_ray.apps.reporting.report import Report
from al_ray.apps.reporting.tables.markdown_table import escape, markdown_table
from al_ray.apps.reporting.tables.table import Table


def markdown(report: Report, figures: str) -> str:
    """Return a report as Markdown. figures: path of the figures' folder, relative to the file."""
    lines = ["# Report", "", *markdown_table(report.runs)]
    for number, section in enumerate(report.sections, start=1):
        lines += [f"## {number}. {escape(section.title)}", "", escape(section.words), ""]
        for chapter in section.chapters:
            if chapter.tables or chapter.pictures:
                lines += [f"### {chapter.title}", "", *_content(chapter.tables, chapter.pictures, figures)]
    return _joined(lines)


def page(title: str, tables: Sequence[Table], pictures: Sequence[Picture], figures: str) -> str:
    """Return tables and figures under one heading as Markdown. figures: path of the figures' folder."""
    return _joined([f"# {title}", "", *_content(tables, pictures, figures)])


def _content(tables: Sequence[Table], pictures: Sequence[Picture], figures: str) -> list[str]:
    images = [f"![{escape(picture.words)}]({figures}/{picture.name}.svg)\n" for picture in pictures]
    return [*(line for table in tables for line in markdown_table(table)), *images]


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(lines).rstrip("\n") + "\n"
