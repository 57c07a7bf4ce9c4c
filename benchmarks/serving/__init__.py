"""Load test of jobs.serve beside a plain service."""
