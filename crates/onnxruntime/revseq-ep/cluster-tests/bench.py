"""Rows a second of the Ray example by actors, by batch and by window: the figures of benches/records/ray.md.

    REVSEQ_EP_LIBRARY=… python bench.py
"""

import pathlib
import statistics
import tempfile

import numpy as np
import pyarrow.parquet as pq
import ray
from common import EXAMPLES, package, reverse, table
from test_ray import STORE, ray_batch

ROWS, UNIT, ROUNDS = 160_000, 4_000, 3
CASES = [
    # actors, batch, window
    (1, 64, 4096),
    (2, 64, 4096),
    (1, 1, 4096),
    (1, 16, 4096),
    (1, 256, 4096),
    (1, 64, 64),
    (1, 64, 512),
]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        # Like recordings: most are short, few are very long.
        lengths = np.random.default_rng(3).lognormal(np.log(200), 0.7, ROWS).astype(np.int64) + 1
        pq.write_table(table(lengths), place / "in.parquet", row_group_size=UNIT)
        path = package(place / "package", library=True)
        ray.init(num_cpus=2, object_store_memory=STORE, log_to_driver=False,
                 runtime_env={"env_vars": {"PYTHONPATH": f"{path}:{EXAMPLES}"}})  # fmt: skip
        print(f"{ROWS} rows, lengths: median {np.median(lengths):.0f}, longest {lengths.max()}")
        rates = {case: [] for case in CASES}
        padding = {}
        for turn in range(ROUNDS):
            for case in CASES:
                actors, batch, window = case
                output = place / f"{turn} {case}"
                settings = ray_batch.Settings(
                    reverse(), str(output), batch=batch, window=window
                )
                total = ray_batch.infer(place / "in.parquet", settings, actors)
                padding[case] = 1 - total["elements"] / total["padded"]
                # Without the first quarter, in which the actors start.
                times = sorted(file.stat().st_mtime for file in (output / "rows").iterdir())
                first = len(times) // 4
                rates[case].append((len(times) - 1 - first) * UNIT / (times[-1] - times[first]))
        for case, found in rates.items():
            spread = f"{min(found):,.0f} to {max(found):,.0f}"
            print("actors {} batch {} window {}: ".format(*case)
                  + f"{statistics.median(found):,.0f} rows/s ({spread}), {padding[case]:.1%} padding")  # fmt: skip


if __name__ == "__main__":
    main()
