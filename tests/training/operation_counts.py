"""Counts of the operations that torch dispatches: what a GPU's host pays for, whatever the sizes of the tensors."""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

READS = {"aten::_local_scalar_dense", "aten::equal"}
# These give another view of a tensor, or a field of it, and start no kernel.
FREE = {
    *("aten::detach", "aten::lift_fresh", "aten::_unsafe_view", "aten::_indices", "aten::_values"),
    *("aten::resolve_conj", "aten::resolve_neg", "aten::empty", "aten::empty_like", "aten::new_empty"),
    *("aten::_sparse_coo_tensor_with_dims_and_tensors", "aten::sym_size", "prim::device"),
}


@dataclass(frozen=True)
class Counts:
    """Counts of one step, or of one batch.

    operations: all, also those that give a view. kernels: those that compute or copy; `_foreach_` and fused ones count
    once, although a GPU may start several kernels for them. casts: copies with another dtype. reads: values that the
    host reads, and waits for if they are on a GPU. moves: calls that ask for a tensor on the device by its name, or on
    the CPU (`.to("cpu:0")`, `.cpu()`). A call for a tensor that is there already, which copies nothing on a GPU, counts
    too. A GPU's host also waits for `.cpu()`; that is not in reads.
    """

    operations: int
    kernels: int
    casts: int
    reads: int
    moves: int

    def beyond(self, other: "Counts") -> "Counts":
        """Return the difference to other counts."""
        return Counts(*(own - their for own, their in zip(astuple(self), astuple(other), strict=True)))

    def within(self, budget: "Counts") -> bool:
        """Return whether no count is above the budget."""
        return all(own <= most for own, most in zip(astuple(self), astuple(budget), strict=True))

    def __str__(self) -> str:
        return f"Counts({', '.join(f'{value}' for value in astuple(self))})"


class _Dispatched(TorchDispatchMode):
    """Counts operations by name; a composite operation counts as the operations that it is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.names, self.casts, self.free = Counter[str](), 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        kwargs, name = dict(kwargs or {}), func._schema.name
        # Without gradients they arrive here whole.
        with self:
            result = func.decompose(*args, **kwargs)
        if result is not NotImplemented:
            return result
        result = func(*args, **kwargs)
        if not name.startswith("profiler::"):
            self.names[name] += 1
            self.free += func.is_view or name in FREE
            self.casts += name == "aten::_to_copy" and result.dtype != args[0].dtype
        return result


class _Moves(TorchFunctionMode):
    """Counts calls that ask for a tensor on a device."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        given = [*args[1:2], kwargs.get("device")]
        if name == "to":
            # The device of a tensor is "cpu": what asks for that of another tensor does not name "cpu:0".
            self.calls += any(str(value) == "cpu:0" for value in given if isinstance(value, str | torch.device))
        elif name in ("tensor", "as_tensor"):
            self.calls += kwargs.get("device") is not None
        self.calls += name == "cpu"
        return func(*args, **kwargs)


def count(work: Callable[[], object]) -> tuple[Counts, Counter[str]]:
    """Do some work, and return its counts and the number of operations by name."""
    with ExitStack() as stack:
        moves, dispatched = stack.enter_context(_Moves()), stack.enter_context(_Dispatched())
        work()
    every = dispatched.names.total()
    reads = sum(dispatched.names[name] for name in READS)
    return Counts(every, every - dispatched.free - reads, dispatched.casts, reads, moves.calls), dispatched.names
