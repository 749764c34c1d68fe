"""Time the balanced label step against a plain argmin.

    python benchmarks/label_step.py --windows 1000000

Costs are random; "balanced" needs no more than the argmin, "flow" has one state that too few windows choose.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from m3c_md.optimize.labels import balanced_labels, class_bounds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=int, default=1_000_000)
    parser.add_argument("--states", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    balanced = rng.random((options.windows, options.states))
    rare = balanced + np.where(np.arange(options.states) == 0, 0.95, 0.0)
    bounds = class_bounds(options.windows, options.states, (0.01, 0.99))
    for name, costs in (("balanced", balanced), ("flow", rare)):
        ours, plain = [], []
        for _ in range(options.repeats):
            began = time.perf_counter()
            result = balanced_labels(costs, *bounds)
            ours.append(time.perf_counter() - began)
            began = time.perf_counter()
            costs.argmin(axis=1)
            plain.append(time.perf_counter() - began)
        ratio = np.median(np.array(ours) / np.array(plain))
        print(f"{name}: {np.median(ours):.3f} s ({result.method}), {ratio:.1f} times a plain argmin")


if __name__ == "__main__":
    main()
