"""Thin fronts of the commands, for `ray job submit` and `python -m jobs.NAME`; not in the wheel."""
