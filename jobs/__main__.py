"""python -m jobs: the list of commands; python -m jobs NAME: a command."""

from al_ray.cli._shared.entry import al_ray

if __name__ == "__main__":
    al_ray()
