"""Refuse shards on different hardware, unless it is accepted: a text's vector would depend on where it was encoded."""

from collections import Counter
from collections.abc import Sequence

from al_ray.core.errors import BadOption


def check_same_hardware(hardware: Sequence[tuple[str, ...]], accepted: bool) -> None:
    """Raise BadOption if shards differ in device or versions. hardware: what each shard says (encoders/hardware.py)."""
    kinds = Counter(hardware)
    if len(kinds) > 1 and not accepted:
        listed = "; ".join(f"{count} of {', '.join(kind)}" for kind, count in kinds.most_common())
        raise BadOption(
            f"the shards run on {len(kinds)} kinds of hardware ({listed}), so that the last bits of a vector, and with "
            "them results, would depend on where a text is encoded: use nodes of one kind, or accept it with "
            "`mixed_hardware=True`"
        )
