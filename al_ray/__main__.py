"""python -m al_ray NAME: the console command `al-ray NAME`, where its script is not installed."""

from al_ray.cli._shared.entry import al_ray

if __name__ == "__main__":
    al_ray()
