"""The order of ids: whole numbers by value, then texts."""

from al_ray.core.id_order import rows_by_id


def test_whole_numbers_come_first_by_their_value_and_then_texts_by_their_characters():
    ids = ["b2", "10", "9", "b10", "-3", "007", "7", "", "1.5", "½", "9" * 30]
    # 9 * 30 has too many digits for a number; "" < "1.5" < "999..." < "b10" < "b2" < "½".
    ordered = [ids[row] for row in rows_by_id(ids)]
    assert ordered == ["-3", "007", "7", "9", "10", "", "1.5", "9" * 30, "b10", "b2", "½"]
