"""A model (not a measurement) of the communication cost of a step on many devices, and of the efficiency to expect.

    step on n devices = fixed + each * batch / n + sum of all-reduces
    all-reduce of b bytes over n devices = 2 (n - 1) / n * b / bandwidth + 2 log2(n) * latency

This is the cost of recursive halving and doubling. A ring moves as many bytes in 2 (n - 1) rounds instead of 2 log2(n).
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

DEVICES = (1, 8, 64, 1000)
PARAMETERS, PIXELS, BATCH, SCALARS = 403_214, 784, 300, 2
NETWORKS = {"10 Gbit/s Ethernet": (1.25e9, 50e-6), "200 Gbit/s InfiniBand": (25e9, 5e-6)}


@dataclass(frozen=True)
class Cost:
    """The cost model.

    Attributes:
        step: seconds of a step on one device, with a batch of BATCH.
        fixed_share: fraction of `step` that does not depend on the size of the batch.
        bandwidth: bytes per second.
        latency: seconds per message.
    """

    step: float
    fixed_share: float
    bandwidth: float
    latency: float

    def all_reduce(self, size: float, devices: int) -> float:
        """Seconds of an all-reduce of `size` bytes."""
        return 2 * (devices - 1) / devices * size / self.bandwidth + 2 * math.log2(devices) * self.latency

    def seconds(self, devices: int, batch: float, *, whole_data: bool) -> float:
        """Seconds of a step, with all-reduces of the gradient, of a few numbers (twice) and of the rows of data.

        Args:
            devices: number of devices.
            batch: total size of the batch.
            whole_data: whether the data is replicated, so that rows are not communicated.
        """
        fixed = self.fixed_share * self.step
        computing = fixed + (self.step - fixed) * batch / devices / BATCH
        sizes = [4 * PARAMETERS, *SCALARS * [8], *([] if whole_data else [PIXELS * batch])]
        return computing + sum(self.all_reduce(size, devices) for size in sizes)

    def weak(self, devices: int, *, whole_data: bool) -> float:
        """Efficiency with a batch of BATCH per device: the time of one device over that of n devices."""
        return self.step / self.seconds(devices, BATCH * devices, whole_data=whole_data)

    def strong(self, devices: int) -> float:
        """Efficiency with a batch of BATCH in total: the time of one device over n times that of n devices."""
        return self.step / devices / self.seconds(devices, BATCH, whole_data=True)


def table(step: float, fixed_share: float) -> list[str]:
    """The efficiencies as the lines of a Markdown table."""
    head = "| network | devices | weak, rows divided | weak, --whole-data | strong, --whole-data | gradient, ms |"
    rows = [head, "|---|---|---|---|---|---|"]
    for name, network in NETWORKS.items():
        cost = Cost(step, fixed_share, *network)
        for n in DEVICES:
            weak = [f"{cost.weak(n, whole_data=whole):.0%}" for whole in (False, True)]
            strong = f"{cost.strong(n):.0%}" if n <= BATCH else "-"
            gradient = f"{1e3 * cost.all_reduce(4 * PARAMETERS, n):.2f}"
            rows.append(f"| {name} | {n:,} | {weak[0]} | {weak[1]} | {strong} | {gradient} |")
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--step-ms", type=float, default=18.0, help="time per step of the MNIST autoencoder, one device"
    )
    parser.add_argument(
        "--fixed-share", type=float, default=0.2, help="fraction of it that does not depend on the batch"
    )
    chosen = parser.parse_args()
    print("\n".join(table(chosen.step_ms / 1e3, chosen.fixed_share)))
