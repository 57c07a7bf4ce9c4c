"""Sizes of a run's task and encoder, the inputs of a plan."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Sizes of a run's task and encoder.

    texts: left texts of the training pool; right: right texts, None if they are the same (symmetric task). evaluation,
    evaluation_right: the same for each evaluated split. tokens: mean tokens of a text, with special tokens; vocabulary:
    number of tokens that the encoder knows. vectors: bytes of a number in a vector (4 or 2). hidden: width of the
    encoder's layers, None for `dim`, which a Dense layer changes. can_match, evaluation_can_match: pairs of the pool
    and of a split, None for all.
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
    hidden: int | None = None
    can_match: int | None = None
    evaluation_can_match: int | None = None

    @property
    def width(self) -> int:
        """Return the width of the encoder's layers."""
        return self.dim if self.hidden is None else self.hidden

    @property
    def parameters(self) -> int:
        """Return the parameters of a BERT of width w and inner width 4 w: embeddings, and 12 w^2 + 13 w in each layer.

        A Dense layer between the width and another dimension of the vectors has w dim + dim more.
        """
        dense = 0 if self.hidden is None else (self.width + 1) * self.dim
        layers = self.layers * (12 * self.width**2 + 13 * self.width)
        return (self.vocabulary + 514) * self.width + layers + dense

    def trained_parameters(self, frozen: int) -> int:
        """Return the parameters that a training changes: all, or those above `frozen` layers if some are frozen."""
        layer = 12 * self.width**2 + 13 * self.width
        return self.parameters - ((self.vocabulary + 514) * self.width + frozen * layer if frozen else 0)

    @property
    def operations(self) -> float:
        """Return the operations of a text's forward pass, in each layer of width w 24 w^2 tokens + 4 w tokens^2."""
        return self.layers * (24 * self.width**2 * self.tokens + 4 * self.width * self.tokens**2)

    @property
    def pairs(self) -> int:
        """Return the pairs of the training pool."""
        return pairs_of(self.texts, self.right) if self.can_match is None else self.can_match

    @property
    def evaluation_pairs(self) -> int:
        """Return the pairs of an evaluated split."""
        every = pairs_of(self.evaluation, self.evaluation_right)
        return every if self.evaluation_can_match is None else self.evaluation_can_match


def pairs_of(left: int, right: int | None) -> int:
    """Return n (n - 1) / 2 for one set of texts, n m for two."""
    return left * (left - 1) // 2 if right is None else left * right
