"""Peak memory of log q(z) with up to a million inner samples, evaluated in blocks: flat in their number."""

from __future__ import annotations

import resource
import subprocess
import sys
import time

OUTER, SIZES = 100, (20_000, 200_000, 1_000_000)


def measure(inner: int) -> str:
    """Evaluate in this process and report its peak resident memory."""
    import equinox as eqx
    import jax

    from civi.estimate import log_density
    from civi.family import Architecture

    family = Architecture().init(2, jax.random.key(0))
    z = family.sample(jax.random.key(1), OUTER)
    begun = time.perf_counter()
    log_q = eqx.filter_jit(log_density)(family, z, jax.random.key(2), inner).block_until_ready()
    seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"{inner:>9,} inner x {OUTER} outer: mean log q {log_q.mean():.4f}, peak {peak:.0f} MB, {seconds:.1f} s"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(measure(int(sys.argv[1])))
    else:
        for size in SIZES:
            subprocess.run([sys.executable, __file__, str(size)], check=True)
