"""Compare al_ray with Splink and dedupe: python -m benchmarks.other_tools --out DIR --splink PYTHON --dedupe PYTHON"""

from al_ray.cli._shared.entry import parse_options, run_process
from benchmarks.other_tools.comparison import OtherTools, format_results


def main() -> None:
    """Run all tools, and print the figures."""
    program = "python -m benchmarks.other_tools"
    options = parse_options(OtherTools, program, "al_ray, Splink and dedupe with the same labels.")
    print(format_results(options.results()))


if __name__ == "__main__":
    run_process(main)
