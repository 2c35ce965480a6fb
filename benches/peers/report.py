#!/usr/bin/env python3
"""Prints what `cargo bench --bench peers` measured, as Markdown.

Nanoseconds per operation are the least of criterion's samples, which a busy machine disturbs
least; `--median` takes criterion's median instead. `--criterion DIR` names another folder than
`target/criterion` beside this file; of several folders, that is of several runs, each benchmark's
least counts, so that a machine that slows down during one of them spoils no comparison.
"""

import argparse
import json
from pathlib import Path

# The scheduler is given hashed callers, the pool callers as text. A workload of this name plus
# COARSE is measured by the same floor, which reads the exact clock.
FLOORS = {
    "caller-sharded": "floor/caller",
    "all-tied": "floor/caller",
    "new-conversation": "floor/caller",
    "bound": "floor/sticky",
}
SPELLINGS = {"scheduler": "hashed", "pool": "text"}
COARSE = "-coarse"
PEERS = ["peers/pingora-round-robin", "peers/pingora-ketama", "peers/tower-p2c"]
SMALL, LARGE = 64, 32768


def read(folders, median):
    """{group: {size: nanoseconds}} of every benchmark: the least of the folders' latest runs."""
    measured = {}
    for path in (it for folder in folders for it in sorted(folder.glob("**/new/benchmark.json"))):
        bench = json.loads(path.read_text())
        size = bench["value_str"] or bench["function_id"]
        if not size.isdigit():
            continue
        if median:
            estimates = json.loads(path.with_name("estimates.json").read_text())
            nanos = estimates["median"]["point_estimate"]
        else:
            sample = json.loads(path.with_name("sample.json").read_text())
            nanos = min(t / n for t, n in zip(sample["times"], sample["iters"]))
        sizes = measured.setdefault(bench["group_id"], {})
        sizes[int(size)] = min(nanos, sizes.get(int(size), nanos))
    return measured


def number(value):
    if value is None:
        return "–"
    return f"{value:,.0f}".replace(",", " ")


def ratio(part, whole):
    if part is None or not whole:
        return "–"
    value = part / whole
    return f"{value:.2f}" if value < 10 else number(value)


def table(title, head, rows):
    print(f"\n### {title}\n")
    print("| " + " | ".join(head) + " |")
    print("| " + " | ".join(["---"] * len(head)) + " |")
    for row in rows:
        print("| " + " | ".join(row) + " |")


def growth(values):
    return ratio(values.get(LARGE), values.get(SMALL))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--median", action="store_true", help="criterion's median, not the least")
    parser.add_argument("--brief", action="store_true", help="leave out the tables per peer")
    default = Path(__file__).parent / "target" / "criterion"
    parser.add_argument("--criterion", type=Path, nargs="+", default=[default], metavar="DIR")
    options = parser.parse_args()

    measured = read(options.criterion, options.median)
    if not measured:
        folders = ", ".join(map(str, options.criterion))
        parser.error(f"nothing measured in {folders}: run `cargo bench --bench peers`")
    ours = [group for group in measured if group.startswith(("scheduler/", "pool/"))]
    ladders = [sizes for sizes in measured.values() if len(sizes) > 1]
    sizes = sorted({size for ladder in ladders for size in ladder})
    names = [number(size) for size in sizes]

    def rows(groups, cell):
        return [[group] + [cell(group, size) for size in sizes] for group in groups]

    def nanos(group, size):
        return measured.get(group, {}).get(size)

    others = [group for group in measured if group.startswith(("floor/", "peers/"))]
    groups = sorted(group for group in others if len(measured[group]) > 1) + sorted(ours)
    table(
        "Nanoseconds per operation",
        ["", *names, "64 → 32 768"],
        [row + [growth(measured[row[0]])] for row in rows(groups, lambda g, s: number(nanos(g, s)))],
    )
    for group in (group for group in others if len(measured[group]) == 1):
        print(f"\n{group}: {number(next(iter(measured[group].values())))} ns")

    def floor(group):
        layer, workload = group.removesuffix(COARSE).split("/")
        if workload in FLOORS:
            return f"{FLOORS[workload]}-{SPELLINGS[layer]}"
        return "floor/anonymous"

    shared = [size for size in sizes if nanos("floor/anonymous", size)]
    table(
        "Ours ÷ floor",
        ["", "floor", *map(number, shared)],
        [
            [group, floor(group)]
            + [ratio(nanos(group, size), nanos(floor(group), size)) for size in shared]
            for group in sorted(ours)
        ],
    )
    for peer in PEERS if not options.brief else []:
        if peer in measured:
            table(
                f"Ours ÷ {peer.removeprefix('peers/')}",
                ["", *map(number, shared)],
                [
                    [group] + [ratio(nanos(group, size), nanos(peer, size)) for size in shared]
                    for group in sorted(ours)
                ],
            )


if __name__ == "__main__":
    main()
