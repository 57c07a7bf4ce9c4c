"""Sizes of a run's task and encoder, the inputs of a plan."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Sizes of a run's task and encoder.

    texts: left texts of the training pool; right: right texts, None if they are the same (symmetric task). evaluation,
    evaluation_right: the same for each evaluated split. tokens: mean tokens of a text, with special tokens; vocabulary:
    number of tokens that the encoder knows. vectors: bytes of a number in a vector (4 or 2).
    """

    texts: int
    right: int | None
    evaluation: int
    evaluation_right: int | None
    dim: int = 384
    layers: int = 6
    tokens: float = 128.0
    vocabulary: int = 30522
    vectors: int = 4

    @property
    def parameters(self) -> int:
        """Return the parameters of a BERT with inner width 4 dim: embeddings, and 12 dim^2 + 13 dim in each layer."""
        return (self.vocabulary + 514) * self.dim + self.layers * (12 * self.dim**2 + 13 * self.dim)

    @property
    def operations(self) -> float:
        """Return the operations of a text's forward pass, in each layer 24 dim^2 tokens + 4 dim tokens^2."""
        return self.layers * (24 * self.dim**2 * self.tokens + 4 * self.dim * self.tokens**2)

    @property
    def pairs(self) -> int:
        """Return the pairs of the training pool."""
        return pairs_of(self.texts, self.right)

    @property
    def evaluation_pairs(self) -> int:
        """Return the pairs of an evaluated split."""
        return pairs_of(self.evaluation, self.evaluation_right)


def pairs_of(left: int, right: int | None) -> int:
    """Return n (n - 1) / 2 for one set of texts, n m for two."""
    return left * (left - 1) // 2 if right is None else left * right
