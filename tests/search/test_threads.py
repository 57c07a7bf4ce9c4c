"""Work in several threads."""

import threading

import pytest
import torch

from al_ray.search.threads import in_threads


@pytest.mark.parametrize(("threads", "most", "expected"), [(1, 5, 1), (3, 5, 3), (3, 2, 2), (3, 1, 1), (3, 0, 1)])
def test_work_has_the_threads_of_torch_with_one_of_torch_each(threads, most, expected):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        # The calls meet: they run at once.
        together = threading.Barrier(expected)

        def work() -> tuple[int, int]:
            together.wait(60)
            return threading.get_ident(), torch.get_num_threads()

        found = in_threads(work, most)
        assert len({ident for ident, _ in found}) == len(found) == expected
        assert {of_torch for _, of_torch in found} == ({threads} if expected == 1 else {1})
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_an_error_of_a_thread_is_raised_here():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(ZeroDivisionError):
            in_threads(lambda: 1 // 0, 2)
    finally:
        torch.set_num_threads(before)
