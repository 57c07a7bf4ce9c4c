"""Signals to a server, whichever of its threads gets them."""

import subprocess
import sys

# The thread that gets the signal is not the main one, which waits.
PROGRAM = """
import signal, threading
from al_ray.apps.http.signals import received

def deliver():
    waits.wait()
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    threading.Event().wait(60)

waits = threading.Event()
threading.Thread(target=deliver, daemon=True).start()
with received(signal.SIGHUP, signal.SIGTERM) as next_signal:
    signal.raise_signal(signal.SIGHUP)
    print(next_signal())
    waits.set()
    print(next_signal())
"""


def test_a_signal_that_another_thread_gets_is_received():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.split() == ["1", "15"]
