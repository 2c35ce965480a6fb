#!/usr/bin/env python3
"""Counts the instructions of a pair of select and settle, and compares with `baseline.json`.

Called by `.ci/instructions` with the program to count. Valgrind emulates the same processor
everywhere, so the counts differ between machines as little as their compilers do.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BASELINE = Path(__file__).with_name("baseline.json")
WORKLOADS = [
    "anonymous",
    "steady",
    "caller-sharded",
    "all-tied",
    "bound",
    "new-conversation",
    "third-cooled",
    "excluded-3",
    "refused",
]
SIZES = [64, 4096]
PAIRS = 1000
ALLOWED = 1.10


def count(binary, workload, accounts):
    """Instructions of one pair."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind.out"
        command = [
            "valgrind",
            "--quiet",
            "--tool=callgrind",
            "--collect-atstart=no",
            "--toggle-collect=*counts*measured*",
            f"--callgrind-out-file={out}",
            binary,
            workload,
            str(accounts),
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        total = re.search(r"^(?:totals|summary): (\d+)", out.read_text(), re.MULTILINE)
    counted = int(total.group(1))
    if counted == 0:
        sys.exit(f"{workload} {accounts}: nothing was counted; is `measured` still in the program?")
    return round(counted / PAIRS)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("--renew", action="store_true", help="write the baseline")
    options = parser.parse_args()

    cases = [(workload, accounts) for workload in WORKLOADS for accounts in SIZES]
    with ThreadPoolExecutor(2) as runs:
        counts = runs.map(lambda case: count(options.binary, *case), cases)
        counted = {f"{workload} {accounts}": n for (workload, accounts), n in zip(cases, counts)}

    baseline = {}
    if BASELINE.exists():
        baseline = json.loads(BASELINE.read_text())
    grown = []
    print("instructions of one select and settle:")
    for case, now in counted.items():
        before = baseline.get(case)
        change = f"{now / before - 1:+.1%}" if before else "new"
        print(f"{case:>24} {now:>12} {change:>8}")
        if before and now > before * ALLOWED:
            grown.append(case)

    if options.renew:
        BASELINE.write_text(json.dumps(counted, indent=4) + "\n")
        print(f"written to {BASELINE.name}")
    elif grown or baseline.keys() != counted.keys():
        if grown:
            print(f"grown by more than {ALLOWED - 1:.0%}: {', '.join(grown)}")
        else:
            print("the baseline is of other cases")
        sys.exit("if that is meant, renew the baseline: .ci/instructions --renew")


if __name__ == "__main__":
    main()
