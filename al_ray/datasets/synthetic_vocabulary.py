"""The words of the synthetic questions. Any change here changes every synthetic task, and makes results incomparable.

A question is a frame with a phrase of an intent, which contains an entity, `{x}`. Phrases of one intent mean the same
and have few words in common; all intents of a domain have the same frames, so that different questions look alike.
"""

from dataclasses import dataclass

STARTS = (
    *("Alder", "Amber", "Arno", "Ash", "Balla", "Bern", "Black", "Bramble", "Bright", "Calder", "Castel", "Cedar"),
    *("Clay", "Corvan", "Crest", "Dahl", "Dover", "Dun", "Ebber", "Elm", "Esk", "Fair", "Falken", "Fern"),
    *("Galen", "Glen", "Gold", "Grims", "Halver", "Hazel", "Heron", "Hollow", "Ivor", "Jasper", "Kelder", "Kings"),
    *("Lark", "Linden", "Lumor", "Maple", "Marl", "Meri", "Mistle", "Nor", "Oaken", "Olden", "Orrin", "Pell"),
    *("Pine", "Quill", "Raven", "Rose", "Sable", "Silver", "Solar", "Stone", "Tarn", "Thorn", "Umber", "Vesper"),
    *("Wester", "Willow", "Winter", "Yarrow"),
)
# Between start and end, in tasks that need more names; the first names have none.
MIDDLES = ("", "en", "er", "ing")
ENDS = (
    *("arch", "bank", "beck", "berg", "bourne", "bridge", "brook", "bury", "by", "combe", "cote", "croft"),
    *("dale", "den", "don", "fell", "field", "firth", "ford", "gate", "grove", "ham", "haven", "hill"),
    *("holm", "hurst", "land", "leigh", "lock", "low", "mere", "mond", "moor", "mouth", "ness", "port"),
    *("ridge", "rise", "shaw", "side", "stead", "stow", "thorpe", "vale", "wall", "well", "wick", "worth"),
)

VERB_FRAMES = (
    *("How do I {}?", "How can I {}?", "What is the way to {}?", "Can I {}?", "How does one {}?"),
    *("Is there a way to {}?", "I want to {}.", "Help me to {}."),
)
NOUN_FRAMES = (
    *("What about {}?", "Tell me about {}.", "What is known about {}?", "I want to know about {}.", "Any facts on {}?"),
    *("Who knows about {}?", "A question on {}.", "Please explain {}."),
)


@dataclass(frozen=True)
class Domain:
    """Entities of one kind of thing, and the questions about them.

    An entity is a name, a kind and a variant; forms: two ways to write it. Entities that differ only in their variant
    are near misses. intents: for each intent, phrases that mean the same.
    """

    forms: tuple[str, str]
    kinds: tuple[str, ...]
    variants: tuple[str, ...]
    frames: tuple[str, ...]
    intents: tuple[tuple[str, ...], ...]


def _intents(text: str) -> tuple[tuple[str, ...], ...]:
    """Parse a list of intents, one for each bullet, with `|` between their phrases."""
    intents = [intent.split("|") for intent in text.split("*")[1:]]
    return tuple(tuple(" ".join(phrase.split()) for phrase in phrases) for phrases in intents)


DEVICES = Domain(
    forms=("the {name} {kind} {variant}", "my {kind} {variant} from {name}"),
    kinds=(
        *("Arrow", "Aster", "Atlas", "Beacon", "Bolt", "Breeze", "Canvas", "Cobalt", "Comet", "Coral"),
        *("Delta", "Drift", "Echo", "Ember", "Falcon", "Flint", "Fusion", "Glide", "Halo", "Harbor"),
        *("Indigo", "Juno", "Kite", "Lotus", "Lyra", "Magnet", "Mirror", "Nimbus", "Nova", "Onyx"),
        *("Orbit", "Pixel", "Prism", "Quartz", "Ripple", "Scout", "Spark", "Tempo", "Vector", "Zenith"),
    ),
    variants=tuple(str(number) for number in range(7, 31)),
    frames=VERB_FRAMES,
    intents=_intents(
        """
        * reset {x} | wipe {x} clean | put {x} back to factory settings | erase everything on {x} | start from scratch
          with {x} | bring {x} to the state in which it left the shop
        * update {x} | get the newest software onto {x} | install the current firmware on {x} | bring {x} up to date |
          move {x} to the latest version | load the recent patches on {x}
        * charge {x} | fill the battery of {x} | get power into {x} | top {x} up again | plug {x} in properly | bring
          {x} back from an empty battery
        * return {x} | send {x} back | claim a refund on {x} | undo my purchase of {x} | get my money back for {x} |
          hand {x} in at the shop where I bought it
        * connect {x} | get {x} online | join the wireless network with {x} | hook {x} up to the internet at home | link
          {x} with my router | give {x} access to the web
        * repair {x} | fix {x} after a fall | mend the cracked glass of {x} | have the broken screen of {x} replaced |
          get damage on {x} put right | make {x} work again now that it is smashed
        * copy {x} | back up what is on {x} | keep my files from {x} somewhere safe | store the pictures of {x} twice |
          secure the content of {x} against loss | make a duplicate of all I have on {x}
        * sell {x} | find a buyer for {x} | turn {x} into cash | offer {x} second hand | pass {x} on for a fair price |
          trade {x} in for money
        """
    ),
)
PLANS = Domain(
    forms=("the {name} {kind} {variant} plan", "a {variant} contract for {kind} with {name}"),
    kinds=(
        *("broadband", "mobile", "television", "radio", "energy", "gas", "water", "heating", "solar", "storage"),
        *("music", "film", "news", "magazine", "podcast", "cooking", "meal", "wine", "coffee", "flower"),
        *("gym", "yoga", "swimming", "climbing", "cycling", "parking", "railway", "ferry", "scooter", "taxi"),
        *("health", "dental", "travel", "pet", "home", "garden", "legal", "banking", "language", "cloud"),
    ),
    variants=(
        *("Basic", "Plus", "Family", "Student", "Premium", "Junior", "Senior", "Duo", "Solo", "Flex"),
        *("Starter", "Classic", "Advanced", "Unlimited", "Weekend", "Business"),
    ),
    frames=VERB_FRAMES,
    intents=_intents(
        """
        * cancel {x} | get out of {x} | put an end to {x} | stop paying for {x} for good | quit {x} | terminate {x}
        * renew {x} | go on with {x} for another year | extend {x} | keep {x} when it runs out | sign up again for {x} |
          prolong {x}
        * upgrade {x} | get more out of {x} | move to something bigger than {x} | add extras to {x} | step up from {x} |
          widen what {x} covers
        * pause {x} | put {x} on hold | freeze {x} for a few months | take a break from {x} | suspend {x} for a while |
          interrupt {x} during a long absence
        * pay {x} | settle the bill of {x} | transfer what I owe on {x} | clear the open invoice of {x} | take care of
          the monthly fee of {x} | cover the costs of {x}
        * share {x} | let my sister use {x} too | add a second person to {x} | split {x} with a friend | give my
          flatmate access to {x} | have several people on {x}
        * try {x} | test {x} without obligation | use {x} free of charge at first | get a sample of {x} | see if {x}
          suits me before I decide | have a first look at {x} at no cost
        * complain about {x} | report poor service on {x} | tell somebody how unhappy I am with {x} | make an objection
          to {x} | raise a problem with {x} | get heard about faults in {x}
        """
    ),
)
PLACES = Domain(
    forms=("the {kind} in {variant} {name}", "{variant} {name} and its {kind}"),
    kinds=(
        *("museum", "harbour", "market", "castle", "cathedral", "library", "theatre", "stadium"),
        *("zoo", "aquarium", "lighthouse", "windmill", "abbey", "palace", "park", "garden"),
        *("lake", "beach", "pier", "waterfall", "tower", "bridge", "gallery", "opera"),
        *("observatory", "planetarium", "university", "monastery", "fort", "cave", "vineyard", "brewery"),
        *("racecourse", "arena", "town hall", "old mill", "ice rink", "spa", "cemetery", "quarry"),
    ),
    variants=(
        *("North", "South", "East", "West", "Upper", "Lower", "Old", "New", "Great", "Little"),
        *("Inner", "Outer", "Middle", "Royal", "Long", "Market"),
    ),
    frames=VERB_FRAMES,
    intents=_intents(
        """
        * reach {x} | travel to {x} | get to {x} by public transport | find the road to {x} | go to {x} from the airport
          | make the journey to {x}
        * book {x} | get tickets for {x} | reserve a visit to {x} | secure a place at {x} in advance | buy admission to
          {x} | arrange entry to {x}
        * park at {x} | leave my car near {x} | find a space for the camper by {x} | put the vehicle somewhere close to
          {x} | stop with a van beside {x} | store my wheels while I see {x}
        * eat at {x} | find lunch around {x} | have dinner near {x} | get a good meal close to {x} | choose a restaurant
          next to {x} | still my hunger by {x}
        * sleep near {x} | find a hotel by {x} | stay the night around {x} | get a room close to {x} | choose lodgings
          next to {x} | spend a few nights beside {x}
        * photograph {x} | take pictures of {x} | get good shots of {x} | capture {x} with a camera | catch {x} in the
          best light for an album | film {x}
        * work at {x} | find a job with {x} | become a guide at {x} | get employed by {x} | apply for a post at {x} |
          earn a living at {x}
        * support {x} | donate to {x} | give money for the upkeep of {x} | help {x} survive | sponsor {x} | contribute
          to saving {x}
        """
    ),
)
MEDICINES = Domain(
    forms=("{name}{kind} {variant}", "{variant} of {name}{kind}"),
    kinds=(
        *("afen", "alol", "amide", "anol", "arin", "atrin", "azole", "caine", "cillin", "cort"),
        *("dipine", "done", "drine", "etine", "exin", "fibrate", "floxin", "gliptin", "idine", "iline"),
        *("isone", "itan", "mycin", "nazole", "olone", "onide", "oprol", "orphan", "oxetine", "pamil"),
        *("parib", "prazole", "pril", "ramine", "sartan", "setron", "statin", "terol", "triptan", "zepam"),
    ),
    variants=tuple(f"{dose} mg" for dose in (2, 4, 5, 8, 10, 15, 20, 25, 30, 40, 50, 60, 75, 80, 100, 150, 200, 250)),
    frames=NOUN_FRAMES,
    intents=_intents(
        """
        * side effects of {x} | unwanted reactions to {x} | feeling unwell from {x} | harm that {x} can do | the risks
          of taking {x} | symptoms caused by {x}
        * alcohol with {x} | drinking wine while on {x} | having a beer after {x} | mixing {x} and spirits | a party in
          the weeks of {x} | whether {x} goes with a glass of something strong
        * a missed dose of {x} | forgetting {x} one morning | skipping {x} by mistake | what happens when {x} was left
          out | not having taken {x} yesterday | a gap of a day in taking {x}
        * how long {x} needs to work | the time until {x} helps | when {x} begins to take effect | the delay before {x}
          is felt | waiting for results of {x} | how soon {x} brings relief
        * pregnancy and {x} | taking {x} while expecting a baby | {x} for mothers to be | dangers of {x} to an unborn
          child | {x} before birth | a woman with child who needs {x}
        * stopping {x} | coming off {x} | the end of a treatment with {x} | withdrawal from {x} | giving {x} up | no
          longer taking {x}
        * the price of {x} | what {x} costs | money needed for {x} | paying for {x} without insurance | how expensive
          {x} is | a cheaper source of {x}
        * storing {x} | keeping {x} at home | whether {x} belongs in the fridge | the right temperature for {x} | the
          shelf life of {x} | where to put {x} in summer
        """
    ),
)
PEOPLE = Domain(
    forms=("the {kind} {variant} {name}", "{variant} {name} the {kind}"),
    kinds=(
        *("actor", "architect", "astronomer", "athlete", "baker", "biologist", "botanist", "boxer"),
        *("chemist", "composer", "conductor", "cook", "cyclist", "dancer", "designer", "economist"),
        *("engineer", "explorer", "farmer", "geologist", "historian", "inventor", "judge", "lawyer"),
        *("mathematician", "mayor", "novelist", "nurse", "painter", "philosopher", "physicist", "pilot"),
        *("playwright", "poet", "sailor", "sculptor", "singer", "surgeon", "teacher", "violinist"),
    ),
    variants=(
        *("Ada", "Agnes", "Albert", "Alma", "Anton", "Bella", "Bruno", "Cara", "Clara", "Conrad", "Dora", "Edgar"),
        *("Edith", "Felix", "Flora", "George", "Greta", "Hanna", "Hugo", "Ida", "Iris", "Jacob", "Jonas", "Karl"),
        *("Laura", "Leo", "Lydia", "Marcus", "Martha", "Nina", "Oscar", "Paula", "Peter", "Rosa", "Ruth", "Simon"),
        *("Sophie", "Thea", "Thomas", "Vera", "Victor", "Walter"),
    ),
    frames=NOUN_FRAMES,
    intents=_intents(
        """
        * the birth of {x} | where {x} comes from | the home town of {x} | the origins of {x} | the village in which {x}
          first saw the light | the place that {x} was born in
        * the death of {x} | how {x} died | the last days of {x} | the end of the life of {x} | what {x} passed away
          from | the circumstances in which we lost {x}
        * the wealth of {x} | how rich {x} is | what {x} earns | the fortune of {x} | money that {x} has made | the
          income of {x}
        * the family of {x} | children of {x} | who {x} is married to | relatives of {x} | the household of {x} | the
          wife or husband of {x}
        * the works of {x} | what {x} has created | the best known achievements of {x} | things that {x} is famous for |
          the legacy of {x} | the main contributions by {x}
        * the education of {x} | where {x} studied | the school years of {x} | teachers who formed {x} | degrees held by
          {x} | how {x} learned the trade
        * the address of {x} | how to contact {x} | ways to write to {x} | a means to get in touch with {x} | reaching
          the office of {x} | sending {x} a letter
        * the opinions of {x} | what {x} believes | views held by {x} | the convictions of {x} | where {x} stands in
          politics | the thinking of {x} on the state of the world
        """
    ),
)
DOMAINS = (DEVICES, PLANS, PLACES, MEDICINES, PEOPLE)
