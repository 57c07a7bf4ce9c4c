"""The options of a language model that labels pairs (--oracle llm)."""

from dataclasses import dataclass
from typing import Annotated

from al_ray.core.config.bounds import Between, check_bounds
from al_ray.core.errors import BadOption

DEFINITION = "Two texts match if they describe the same thing."


@dataclass(frozen=True)
class LlmConfig:
    """A language model that labels (--oracle llm); its key is read from the environment variable OPENAI_API_KEY."""

    model: str = ""
    """Name of the model, as the endpoint knows it."""
    base_url: str | None = None
    """Base URL of an OpenAI-compatible endpoint, such as http://127.0.0.1:8000/v1. Default: that in the environment
    variable OPENAI_BASE_URL, else OpenAI's own."""
    definition: str = DEFINITION
    """What a match is, in words that the model reads: a text, or @FILE."""
    examples: Annotated[int, Between(0, 100)] = 0
    """Labelled pairs of train to show to the model: stated ones, and those that no language model has labelled."""
    both_orders: bool = False
    """Ask each pair of a symmetric task both ways round; unsure if the two answers differ. Twice the price."""
    requests_per_minute: Annotated[float | None, Between(0.001, 1e6)] = None
    """Maximum rate of requests; no limit when not given."""
    tokens_per_minute: Annotated[float | None, Between(1, 1e12)] = None
    """Maximum rate of tokens, by the upper bound of each request; no limit when not given."""
    input_price: Annotated[float | None, Between(0, 1e9)] = None
    """Price of a million tokens of prompts; --max-cost needs it."""
    output_price: Annotated[float | None, Between(0, 1e9)] = None
    """Price of a million tokens of answers; --max-cost needs it."""
    output_tokens: Annotated[int, Between(1, 1_000_000)] = 64
    """Maximum tokens of the answer to one pair; a model that reasons before it answers needs more."""
    accept_model: str = ""
    """Model name in replies to accept, where it differs from that of earlier replies of the run."""
    check_with: Annotated[int, Between(0, 100_000)] = 0
    """Pairs of the first batch that people label, too, before the model answers it; check/check.json says how they
    agree. A check that was begun holds, also without this option."""
    least_kappa: Annotated[float, Between(-1, 1)] = 0.6
    """Stop after the check if the lower end of the 95% interval of Cohen's kappa is below this."""
    dry_run: bool = False
    """Print the prompts of the first requests and what the round would cost at most; send nothing."""

    def __post_init__(self) -> None:
        """Raise BadOption for a value out of bounds, or an empty definition."""
        check_bounds(self, "llm.")
        if not self.definition.strip():
            raise BadOption("`llm.definition` is empty; say what a match is, or leave it out")

    @property
    def priced(self) -> bool:
        """Whether the prices of tokens are known."""
        return self.input_price is not None and self.output_price is not None

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        """Return the price of these numbers of tokens; 0 where no price is given."""
        return (input_tokens * (self.input_price or 0.0) + output_tokens * (self.output_price or 0.0)) / 1e6
