#!/usr/bin/env python3
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
"""Draw jobs for run.sh: one line of culprit-demo's flags each, the same for the same seed.

    draw.py SEED COUNT
"""

import random
import sys

LAYOUTS = {4: ["dp4", "dp4,ep2", "dp4,ep4", "dp2,pp2", "dp2,tp2"], 8: ["dp8,ep2", "dp8,ep4", "dp4,pp2,ep2", "dp2,pp2,tp2", "dp4,tp2,ep2"]}
HANGS = ["op-not-entered", "stop", "kill", "kernel-stall"]
SLOW = ["gpu-slow=3", "data-late=0.3"]
HEALTHY = ["none", "checkpoint=8"]


def draw(seed, number):
    """Give the flags of a job: two of three hang."""
    r = random.Random(f"{seed}-{number}")
    ranks = r.choice(list(LAYOUTS))
    kind = r.choices([HANGS, SLOW, HEALTHY], [4, 1, 1])[0]
    flags = {"fault": r.choice(kind), "ranks": ranks, "hosts": r.choice([2, 4]), "layout": r.choice(LAYOUTS[ranks]), "rank": r.randrange(ranks)}
    flags["warmup"] = 250 if kind is SLOW else r.randint(30, 90)
    if kind is SLOW:
        flags["timeout"] = "90s"
    return " ".join(f"--{name}={value}" for name, value in flags.items())


if __name__ == "__main__":
    for job in range(int(sys.argv[2])):
        print(draw(sys.argv[1], job))
