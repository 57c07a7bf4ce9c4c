"""Run and grid folders to tables, plots and one HTML page."""
