"""A command as its users start it, but for the waits: driver.py NAME OPTIONS. SIGUSR1 makes it print its stacks."""

import faulthandler
import signal
import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from al_ray.cli._shared.entry import run_process
from al_ray.cluster import watchdog
from al_ray.storage import lock
from tests.ray_ports import choose_ports

if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1)
    choose_ports()
    # After so many seconds a process that stands still is killed, and three times the beat a lease is taken over.
    watchdog.PATIENCE = watchdog.PATIENCE_OF_STEPS = 5.0
    lock.BEAT = 1.0
    name = sys.argv.pop(1)
    sys.argv[0] = f"al-ray {name}"
    run_process(import_module(f"al_ray.cli.{name}").main)
