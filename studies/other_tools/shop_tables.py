"""Two synthetic tables of products of two shops: half of the rows of each are in both, under other words."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from al_ray.core.errors import BadOption
from al_ray.core.rng import generator

BRANDS = (
    *("Fjell", "Kestrel", "Lopez", "Nine Peaks", "Umber", "Arvid", "Solheim", "Tarn & Co", "Boreas", "Cresta"),
    *("Dunmore", "Elvestad", "Firnline", "Granit", "Halden", "Isola", "Jorvik", "Kvist", "Lumen Works", "Morrow"),
)
LINES = (
    *("Alta", "Ridge", "Storm", "Vela", "Pico", "Nord", "Delta", "Halo", "Strata", "Ember", "Orbit", "Cirrus"),
    *("Tundra", "Vertex", "Breeze", "Canyon", "Drift", "Falcon", "Glacier", "Harbor", "Iris", "Juniper", "Karst"),
    *("Lynx", "Mistral", "Nimbus", "Onyx", "Prism", "Quartz", "Raven", "Sierra", "Thorn", "Umbra", "Vortex"),
    *("Willow", "Xenon", "Yonder", "Zephyr", "Atlas", "Basalt"),
)
# The first spelling of each is that of our shop; theirs uses any.
CLOTHES = (("S", "small", "sz S"), ("M", "medium", "sz M"), ("L", "large", "sz L"), ("XL", "extra large", "sz XL"))
VOLUMES = (("0.5 l", "500 ml", "half litre"), ("0.75 l", "750 ml"), ("1 l", "1000 ml", "one litre"))
PERSONS = (("2 person", "2p", "for two"), ("3 person", "3p", "for three"), ("4 person", "4p", "for four"))
LENGTHS = (("40 m", "40 metres", "forty metre"), ("60 m", "60 metres", "sixty metre"), ("70 m", "70 metres"))
LIGHTS = (("200 lumen", "200lm"), ("400 lumen", "400lm"), ("600 lumen", "600lm"))
KINDS = (
    (("rain jacket", "waterproof coat", "Regenjacke", "rain coat"), CLOTHES),
    (("down jacket", "insulated puffer", "Daunenjacke"), CLOTHES),
    (("trousers", "pants", "Hose", "slacks"), CLOTHES),
    (("gloves", "mittens", "Handschuhe"), CLOTHES),
    (("wool socks", "woollen stockings", "Wollsocken"), CLOTHES),
    (("sweater", "pullover", "jumper", "Strickpulli"), CLOTHES),
    (("cap", "hat", "Muetze", "beanie"), CLOTHES),
    (("trail shoe", "running trainer", "Laufschuh"), CLOTHES),
    (("water bottle", "drinking flask", "Trinkflasche"), VOLUMES),
    (("vacuum mug", "thermos cup", "Thermobecher"), VOLUMES),
    (("cooking pot", "saucepan", "Kochtopf"), VOLUMES),
    (("tent", "shelter", "Zelt"), PERSONS),
    (("sleeping mat", "air mattress", "Isomatte"), PERSONS),
    (("climbing rope", "dynamic line", "Kletterseil"), LENGTHS),
    (("headlamp", "head torch", "Stirnlampe"), LIGHTS),
    (("lantern", "camp light", "Laterne"), LIGHTS),
)
COLOURS = (
    *(("black", "blk", "schwarz", "jet"), ("white", "wht", "weiss", "ivory"), ("red", "rot", "scarlet")),
    *(("blue", "blau", "navy"), ("green", "grn", "olive", "gruen"), ("grey", "gray", "grau", "slate")),
    *(("yellow", "ylw", "gelb", "mustard"), ("orange", "orng", "tangerine")),
)
FAMILY = 5
"""Variants of a family (brand, line and kind) that are sold, at most: these differ in colour or size alone."""
LESS_OFTEN, OFTEN = 0.1, 0.3
COLUMNS = ("id", "title", "brand", "price")

Words = tuple[str, ...]
Row = dict[str, str]


@dataclass(frozen=True)
class Product:
    """One product: brand and line, and all spellings of its kind, colour and size."""

    brand: str
    line: str
    kind: Words
    colour: Words
    size: Words
    price: float


@dataclass(frozen=True)
class Tables:
    """The rows of both shops, and the ids of the pairs that are the same product."""

    ours: list[Row]
    theirs: list[Row]
    matches: list[tuple[str, str]]


def shop_tables(rows: int, seed: int) -> Tables:
    """Make two tables of `rows` rows; rows // 2 products are in both, and every other one in one of them."""
    both = rows // 2
    products = draw_products(2 * rows - both, seed)
    rng = generator(seed, "shop-rows")
    ours = [our_row(sold) for sold in products[:rows]]
    theirs = [their_row(sold, rng) for sold in products[:both] + products[rows:]]
    # Ids and order would tell which rows belong together.
    places = [rng.permutation(rows) for _ in range(2)]
    ids = [[f"{letter}{place:05}" for place in order] for letter, order in zip("AB", places, strict=True)]
    tables = [
        sorted(({"id": key} | row for key, row in zip(keys, table, strict=True)), key=lambda row: row["id"])
        for keys, table in zip(ids, (ours, theirs), strict=True)
    ]
    return Tables(*tables, matches=sorted(zip(ids[0][:both], ids[1][:both], strict=True)))


def draw_products(count: int, seed: int) -> list[Product]:
    """Draw different products in families of 1 to FAMILY, in random order."""
    rng = generator(seed, "shop-products")
    lines = rng.permutation(LINES).reshape(len(BRANDS), -1).tolist()
    families = [(brand, line, kind) for brand in range(len(BRANDS)) for line in lines[brand] for kind in KINDS]
    products: list[Product] = []
    for family in rng.permutation(len(families)):
        brand, line, (names, sizes) = families[family]
        price = float(np.exp(rng.uniform(np.log(12), np.log(300))))
        variants = list(product(range(len(COLOURS)), range(len(sizes))))
        for variant in rng.choice(len(variants), rng.integers(1, FAMILY + 1), replace=False):
            colour, size = variants[variant]
            cost = price * (1 + 0.04 * size)
            products.append(Product(BRANDS[brand], line, names, COLOURS[colour], sizes[size], cost))
    if len(products) < count:
        raise BadOption(f"--rows needs {count} products, and only {len(products)} can be made; give fewer rows")
    return [products[number] for number in rng.permutation(len(products))[:count]]


def our_row(sold: Product) -> Row:
    """Write a product as our shop does: every part, in one order, by its first spelling."""
    title = f"{sold.line} {sold.kind[0]} {sold.colour[0]} {sold.size[0]}"
    return {"title": title, "brand": sold.brand, "price": f"{sold.price:.2f}"}


def their_row(sold: Product, rng: np.random.Generator) -> Row:
    """Write a product as the other shop does: any spelling and order, typos, a brand or line that is missing.

    Of brand and line at most one is missing, and colour and size never are: else nobody could find the match.
    """
    parts = [str(rng.choice(words)) for words in (sold.kind, sold.colour, sold.size)]
    brand = sold.brand
    if rng.random() < OFTEN:
        brand = ""
        # Half of the brands that are not in their column are in the title.
        parts += [sold.line] if rng.random() < 0.5 else [sold.line, sold.brand]
    elif rng.random() >= OFTEN:
        parts.append(sold.line)
    title = " ".join(parts[place] for place in rng.permutation(len(parts)))
    title = " ".join(mistyped(word, rng) for word in title.split())
    price = "" if rng.random() < LESS_OFTEN else f"{sold.price * rng.uniform(0.95, 1.05):.2f}"
    return {"title": title, "brand": brand, "price": price}


def mistyped(word: str, rng: np.random.Generator) -> str:
    """Swap two letters of a word of five letters or more, or leave one out, one time in ten."""
    if len(word) < 5 or not word.isalpha() or rng.random() >= LESS_OFTEN:
        return word
    place = int(rng.integers(1, len(word) - 1))
    middle = word[place + 1] + word[place] if rng.random() < 0.5 else word[place + 1]
    return word[:place] + middle + word[place + 2 :]


def write_csv(path: Path, columns: Sequence[str], rows: Iterator[Row] | Sequence[Row]) -> None:
    """Write rows to a CSV file with a header."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
