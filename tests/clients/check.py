"""What all of the Python clients need: where the gateways are, and a list of checks to run."""

import contextlib
import json
import os
import sys
import time
import traceback
import urllib.request

# A demo that serves anybody, and one that asks for a key, takes small bodies only, waits for
# nothing and throttles each question when it is first asked.
OPEN = os.environ["GATEWAY_OPEN"]
STRICT = os.environ["GATEWAY_STRICT"]
KEY = os.environ["GATEWAY_KEY_TESTS"]
LOG = os.environ["GATEWAY_LOG"]

# No log may hold any of these; `.ci/clients` looks for the word.
CALLER = "sentinel-of-a-caller"
PROMPT = "sentinel-of-a-prompt"
ANY_KEY = "sentinel-of-any-key"

MODEL = "demo-large"
BRIEFING = "You answer in few words. " * 100

CHECKS = []


def check(function):
    """Registers a check; its name says what holds."""
    CHECKS.append(function)
    return function


def main(title):
    """Runs all checks and exits with what came of them."""
    failed = 0
    for function in CHECKS:
        name = function.__name__.replace("_", " ")
        try:
            function()
            print(f"ok    {title}: {name}")
        except Exception:
            failed += 1
            print(f"FAIL  {title}: {name}")
            traceback.print_exc(file=sys.stdout)
    sys.exit(1 if failed else 0)


@contextlib.contextmanager
def raises(kind, status):
    """Expects an error of a class of the client's; what it holds is in the yielded list."""
    caught = []
    try:
        yield caught
    except kind as error:
        assert error.status_code == status, f"status {error.status_code}, not {status}: {error}"
        caught.append(error)
        return
    raise AssertionError(f"no {kind.__name__}")


def until(what, holds):
    """Waits until something holds."""
    end = time.monotonic() + 5
    while not holds():
        assert time.monotonic() < end, f"{what} does not come to hold"
        time.sleep(0.01)


def in_flight():
    with urllib.request.urlopen(f"{OPEN}/pool") as answer:
        return json.load(answer)["in_flight"]


def was_cancelled(request_id):
    """Whether the gateway's log says that a client left before the end."""
    with open(LOG, encoding="utf-8") as log:
        return any(request_id in line and "outcome=Cancelled" in line for line in log)


def leaves(request_id):
    """Holds once the gateway has let go of a request whose client has left."""
    until("the gateway's notice that the client left", lambda: was_cancelled(request_id))
    until("nothing in flight", lambda: in_flight() == 0)
