"""The Ray example on a real Ray of two nodes, whose processes are all on this machine.

The library is in REVSEQ_EP_LIBRARY. One file of tests, one cluster a test: they take turns.
"""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import uuid

from common import EXAMPLES, assert_reversed, lengths, package, reverse, rows, table

#: An environment variable that only this run's processes have.
MARK = f"REVSEQ_CLUSTER_TEST={uuid.uuid4()}"

# Ray reads these when it is imported.
os.environ.update(RAY_USAGE_STATS_ENABLED="0", ORT_DISABLE_TELEMETRY="1")
os.environ.update([MARK.split("=")])
sys.path.insert(0, str(EXAMPLES))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
import ray_batch
from ray.cluster_utils import Cluster

STORE = 80 * 1024 * 1024


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    return package(tmp_path_factory.mktemp("whole"), library=True)


@pytest.fixture
def cluster(whole, monkeypatch):
    """Makes a cluster of a head and a second node: (cluster, the second node)."""
    made = []

    def start(second=None, cpus=2):
        def add(place, cpus=2):
            return made[0].add_node(
                num_cpus=cpus,
                object_store_memory=STORE,
                env_vars={"PYTHONPATH": f"{place}{os.pathsep}{EXAMPLES}"},
            )

        made.append(Cluster())
        # With one, the second actor must be on the second node.
        add(whole, cpus)
        node = add(second or whole)
        made[0].wait_for_nodes()
        ray.init(made[0].address, log_to_driver=False)
        return made[0], node

    monkeypatch.syspath_prepend(whole)
    yield start
    ray.shutdown()
    for one in made:
        one.shutdown()


def ours() -> dict[int, str]:
    """The processes of this run by their command lines."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if MARK.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
    return found


def inferring(node=None) -> list[int]:
    """The actors, or those of one node."""
    found = [pid for pid, line in ours().items() if line.startswith("ray::") and "Infer" in line]
    if node is None:
        return found
    (raylet,) = node.all_processes["raylet"]
    parent = f"PPid:\t{raylet.process.pid}\n"
    return [pid for pid in found if parent in pathlib.Path(f"/proc/{pid}/status").read_text()]


def meanwhile(output: pathlib.Path, action, node=None):
    """Acts once three units are done and an actor exists; returns how many were done then."""
    seen = []

    def wait():
        end = time.monotonic() + 120
        while time.monotonic() < end:
            done = len(list((output / "rows").glob("*.parquet")))
            if done >= 3 and inferring(node):
                action()
                seen.append(done)
                return
            time.sleep(0.005)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread, seen


@pytest.mark.parametrize("features", [0, 3])
def test_the_number_of_actors_changes_nothing(features, cluster, tmp_path):
    source = table(lengths(3000, 60), features)
    pq.write_table(source, tmp_path / "in.parquet", row_group_size=250)
    cluster()
    for actors, batch, window in [(1, 1, 4096), (2, 7, 100), (4, 64, 4096)]:
        output = tmp_path / f"out{actors}"
        settings = ray_batch.Settings(
            reverse(features), str(output), features, batch=batch, window=window
        )
        total = ray_batch.infer(tmp_path / "in.parquet", settings, actors)
        assert (total["units"], total["rows"], total["rejected"]) == (12, 3000, 0)
        assert_reversed(output, source)


def test_the_same_as_in_one_process(cluster, tmp_path, whole):
    """Bit for bit, NaN and its payload included."""
    bits = np.random.default_rng(1).integers(0, 2**32, 40_000, np.uint32)
    values = bits.view(np.float32)
    assert np.isnan(values).any()
    starts = np.arange(0, 40_001, 100, dtype=np.int32)
    x = pa.ListArray.from_arrays(starts, pa.array(values))
    pq.write_table(pa.table({"id": range(400), "x": x}), tmp_path / "in.parquet", row_group_size=50)
    cluster()
    settings = ray_batch.Settings(reverse(), str(tmp_path / "out"), nan=True)
    ray_batch.infer(tmp_path / "in.parquet", settings, 4)
    read = pq.read_table(tmp_path / "out/rows").combine_chunks()
    by_id = {int(i): n for n, i in enumerate(read["id"].to_pylist())}
    y = read["y"].chunk(0)
    values.tofile(tmp_path / "x")
    script = f"""
import numpy as np
from onnxruntime_ep_revseq import worker
session = worker.create_session({reverse()!r})
x = np.fromfile("x", np.float32).reshape(400, 100)
session.run(None, {{"x": x, "lens": np.full(400, 100)}})[0].tofile("y")
"""
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True,
                   env={**os.environ, "PYTHONPATH": str(whole)})  # fmt: skip
    alone = np.fromfile(tmp_path / "y", np.uint32).reshape(400, 100)
    for i, row in enumerate(alone):
        assert y[by_id[i]].values.to_numpy().view(np.uint32).tolist() == row.tolist()


def test_an_actor_is_killed(cluster, tmp_path):
    source = table(lengths(60_000, 100))
    pq.write_table(source, tmp_path / "in.parquet", row_group_size=1000)
    cluster()
    output, killed = tmp_path / "out", []

    def kill():
        killed.append(inferring()[0])
        os.kill(killed[0], signal.SIGKILL)

    thread, seen = meanwhile(output, kill)
    ray_batch.infer(tmp_path / "in.parquet", ray_batch.Settings(reverse(), str(output)), 3)
    thread.join()
    assert seen and seen[0] < 60
    assert_reversed(output, source)


def test_a_node_is_removed(cluster, tmp_path):
    source = table(lengths(60_000, 100))
    # Many units: the job must last until the second node has an actor.
    pq.write_table(source, tmp_path / "in.parquet", row_group_size=200)
    made, node = cluster(cpus=1)
    output = tmp_path / "out"
    thread, seen = meanwhile(
        output, lambda: made.remove_node(node, allow_graceful=False), node
    )
    ray_batch.infer(tmp_path / "in.parquet", ray_batch.Settings(reverse(), str(output)), 4)
    thread.join()
    assert seen and seen[0] < 300
    assert sum(one["Alive"] for one in ray.nodes()) == 1
    assert_reversed(output, source)


def test_bad_rows_are_set_aside_with_the_reason(cluster, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    good = np.arange(12, dtype=np.float32).reshape(4, 3)
    bad = good.copy()
    bad[2, 1] = np.nan
    arrays = {
        "good": good,
        "float64": good.astype(np.float64),
        "nan": bad,
        "wide": np.zeros((4, 4), np.float32),
        "flat": np.zeros(4, np.float32),
        "scalar": np.float32(1),
        "none": np.zeros((0, 3), np.float32),
        "long": np.zeros((11, 3), np.float32),
        "words": np.array([["a"] * 3]),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    (folder / "torn.npy").write_bytes((folder / "good.npy").read_bytes()[:-5])
    (folder / "empty.npy").write_bytes(b"")
    np.save(folder / "pickled.npy", np.array([None]))
    cluster()
    settings = ray_batch.Settings(reverse(3), str(tmp_path / "out"), 3, longest=10)
    total = ray_batch.infer(folder, settings, 2, files=5)
    assert (total["units"], total["rows"], total["rejected"]) == (3, 2, 10)
    found = rows(tmp_path / "out")
    assert found.pop("good") == found.pop("float64") == good[::-1].tolist()
    reasons = {
        "nan": "is not finite at [2, 1]",
        "wide": "has shape [4, 4], expected [T, 3]",
        "flat": "has shape [4], expected [T, 3]",
        "scalar": "has shape [], expected [T, 3]",
        "none": "has length 0, expected 1 to 10",
        "long": "has length 11, expected 1 to 10",
        "words": "holds <U1, expected float32",
    }
    for name, reason in reasons.items():
        assert found.pop(name) == reason
    assert set(found) == {"torn", "empty", "pickled"}
    assert all(reason.startswith("unreadable: ") for reason in found.values()), found


def test_bad_rows_of_a_table(cluster, tmp_path):
    x = pa.array([[1.0, 2.0], None, [], [3.0, None], [1e300], [4.0]])
    pq.write_table(pa.table({"id": list("abcdef"), "x": x}), tmp_path / "in.parquet")
    cluster()
    ray_batch.infer(tmp_path / "in.parquet", ray_batch.Settings(reverse(), str(tmp_path / "out")), 1)
    assert rows(tmp_path / "out") == {
        "a": [2.0, 1.0],
        "b": "no sequence",
        "c": "has length 0, expected 1 to 16000000",
        "d": "holds object, expected float32",
        "e": "is not finite at [0]",
        "f": [4.0],
    }


def test_a_node_without_the_library_is_named(cluster, tmp_path):
    pq.write_table(table(lengths(8000, 30)), tmp_path / "in.parquet", row_group_size=100)
    # The head has no CPU for an actor: with one there, all may be done before the other starts.
    _, node = cluster(second=package(tmp_path / "hollow", library=False), cpus=0)
    with pytest.raises(Exception) as caught:
        ray_batch.infer(tmp_path / "in.parquet", ray_batch.Settings(reverse(), str(tmp_path / "out")), 4)  # fmt: skip
    message = str(caught.value)
    assert f"Ray node {node.node_id}: " in message and "no library of the provider" in message, message


def test_finished_units_are_not_repeated(cluster, tmp_path):
    source = table(lengths(1000, 30))
    pq.write_table(source, tmp_path / "in.parquet", row_group_size=100)
    cluster()
    settings = ray_batch.Settings(reverse(), str(tmp_path / "out"))
    assert ray_batch.infer(tmp_path / "in.parquet", settings, 2)["units"] == 10
    files = sorted((tmp_path / "out/rows").iterdir())
    # Broken off: two units are half written at most.
    files[4].rename(files[4].with_name(f".{files[4].name}.left"))
    files[7].unlink()
    before = {file: file.stat().st_mtime_ns for file in files if file.is_file()}
    assert ray_batch.infer(tmp_path / "in.parquet", settings, 2)["units"] == 2
    assert before == {file: file.stat().st_mtime_ns for file in before}
    assert_reversed(tmp_path / "out", source)
    assert ray_batch.infer(tmp_path / "in.parquet", settings, 2)["units"] == 0


def test_as_a_user_runs_it(whole, tmp_path):
    """On this machine, without a cluster and without any set-up."""
    source = table(lengths(1000, 30))
    (tmp_path / "in").mkdir()
    for part in range(4):
        pq.write_table(source.slice(part * 250, 250), tmp_path / f"in/{part}.parquet")
    (tmp_path / "model.onnx").write_bytes(reverse())
    done = subprocess.run(
        [sys.executable, EXAMPLES / "ray_batch.py", "model.onnx", "in", "out", "--actors", "2"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(whole)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4/4 units, 1000 rows, 0 rejected" in done.stdout
    assert_reversed(tmp_path / "out", source)


def resident(pids) -> int:
    """Their private memory in bytes, without the shared object store."""
    total = 0
    for pid in pids:
        try:
            fields = pathlib.Path(f"/proc/{pid}/statm").read_text().split()
        except OSError:
            continue
        total += (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")
    return total


def test_a_million_sequences_end_with_memory_flat(cluster, tmp_path):
    source = table(lengths(1_000_000, 16))
    pq.write_table(source, tmp_path / "in.parquet", row_group_size=5000)
    cluster()
    output = tmp_path / "out"
    samples, over = [], threading.Event()

    def watch():
        while not over.wait(0.5):
            done = len(list((output / "rows").glob("*.parquet")))
            samples.append((done, resident(inferring()), resident([os.getpid()])))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        settings = ray_batch.Settings(reverse(), str(output), batch=256)
        total = ray_batch.infer(tmp_path / "in.parquet", settings, 2)
    finally:
        over.set()
        thread.join()
    assert (total["rows"], total["rejected"]) == (1_000_000, 0)
    read = pq.read_table(output / "rows", columns=["id"])
    assert len(set(read["id"].to_pylist())) == len(read) == 1_000_000
    # From a quarter of the way, when all actors are at work, to the end.
    print("units done, MB of the actors, MB of the driver:",
          [(done, a // 1_000_000, d // 1_000_000) for done, a, d in samples])  # fmt: skip
    early = [sample for sample in samples if 50 <= sample[0] < 100]
    late = [sample for sample in samples if 150 <= sample[0] < 200]
    for which in (1, 2):
        growth = max(s[which] for s in late) - max(s[which] for s in early)
        assert growth < 32_000_000, (which, growth, samples)
