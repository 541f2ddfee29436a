#!/usr/bin/env python3
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the pickles that the tests read. Run it in this folder; the output is deterministic."""

import collections
import os
import pickle

PLAIN = {
    "none": None,
    "bools": [True, False],
    "ints": [0, 255, 65535, -1, 2**31 - 1, -(2**31), 2**40, -(2**40), 2**63 - 1, -(2**63), 2**70, -(2**70)],
    "floats": [0.5, -1e300, float("inf")],
    "text": ["", "plain", "übergroß \U0001f600", "line\nquote'\\"],
    "bytes": b"\x00\xff raw",
    "tuple": (1,),
    "tuples": ((), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
    "nested": {"a": {"b": [{"c": (1, [2, {"d": 3}])}]}},
    7: "int key",
    "many": list(range(3000)),
}
shared = ["shared"]
PLAIN["shared"] = [shared, shared]


class Evil:
    """Unpickling this would run a shell command."""

    def __reduce__(self):
        return (os.system, ("touch culprit-was-here",))


def dump(name, value, protocol):
    with open(name, "wb") as f:
        pickle.dump(value, f, protocol=protocol)


for p in range(6):
    dump(f"plain{p}.pkl", PLAIN, p)
    dump(f"evil{p}.pkl", {"version": "2.9", "entries": [Evil()]}, p)
    dump(f"ordered{p}.pkl", {"o": collections.OrderedDict(a=1, b=2), "s": {3}, "f": frozenset((4,))}, p)
cycle = []
cycle.append(cycle)
dump("cycle.pkl", cycle, 4)
