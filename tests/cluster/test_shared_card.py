"""Actors that share a GPU, which Ray is told of and the machine has not: each is limited to its share, again when lost.

In a process of its own, because Ray is started with a GPU. Calls of CUDA are stubs.
"""

import subprocess
import sys

ACTORS = """
import os, sys
import ray

class Holder:
    def __init__(self, spec):
        pass
    def limits(self):
        return os.environ.get("LIMITS", "none")
    def end(self):
        os._exit(1)

def stub():
    import torch
    torch.cuda.is_available = lambda: True
    def limit(share):
        os.environ["LIMITS"] = os.environ.get("LIMITS", "") + str(share)
    torch.cuda.set_per_process_memory_fraction = limit

if __name__ == "__main__":
    from al_ray.cluster.actor_host import HostSpec, start_actor
    options = {"worker_process_setup_hook": stub}
    # Without CPUs Ray starts no process before an actor needs it.
    ray.init(address="local", num_cpus=0, num_gpus=2, include_dashboard=False, log_to_driver=False, runtime_env=options)
    options = {"num_cpus": 0, "max_restarts": 1, "max_task_retries": 1}
    each = [start_actor(HostSpec(Holder), 0, {**options, "num_gpus": share}) for share in (0.5, 1, 0)]
    found = ray.get([one.limits.remote() for one in each])
    each[0].end.options(max_task_retries=0).remote()
    found.append(ray.get(each[0].limits.remote()))
    open(sys.argv[1], "w").write(" ".join(found))
"""


def test_each_actor_is_limited_to_its_share_of_a_gpu_and_again_when_it_is_started_again(tmp_path):
    (tmp_path / "actors.py").write_text(ACTORS)
    command = [sys.executable, str(tmp_path / "actors.py"), str(tmp_path / "found")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "found").read_text() == "0.5 none none 0.5"
