"""Cells of CSV files that a spreadsheet would run."""

import pyarrow as pa
import pytest

from al_ray.oracles.answer_files import escape_cell
from al_ray.storage.formulas import FORMULA, FormulaCells, formula_advice

TABLE = pa.table({"text": ["=1+1", "a=1", None, "", "'=1", "a\n=1"], "number": [-1, 2, 3, 4, 5, 6]})


@pytest.mark.parametrize("sign", FORMULA)
def test_a_cell_is_escaped_as_in_the_sheets_that_people_fill(sign: str):
    cells = FormulaCells(escape=True)
    texts = [f"{sign}x", f" {sign}x", f"x{sign}"]
    assert cells.checked(pa.table({"text": texts}))["text"].to_pylist() == [escape_cell(text) for text in texts]
    assert cells.count == 1


def test_texts_that_are_formulas_are_counted_and_numbers_and_empty_cells_are_not():
    cells = FormulaCells(escape=False)
    assert cells.checked(TABLE).equals(TABLE)
    assert cells.checked(TABLE).equals(TABLE)
    assert cells.count == 2
    assert FormulaCells(escape=True).checked(TABLE)["text"].to_pylist() == ["'=1+1", *TABLE["text"].to_pylist()[1:]]
    assert FormulaCells(escape=True).checked(TABLE[:0]).equals(TABLE[:0])


def test_who_opens_the_file_is_warned():
    assert formula_advice(0, "a.csv") is None
    assert "would run 1 cell of a.csv as formulas" in str(formula_advice(1, "a.csv"))
    assert "2,000 cells of" in str(formula_advice(2000, "a.csv"))
