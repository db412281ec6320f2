"""The Spark example on a Spark of this machine, whose workers are processes of their own.

The library is in REVSEQ_EP_LIBRARY; Spark needs Java.
"""

import os
import pathlib
import signal
import sys
import threading
import time

from common import EXAMPLES, assert_reversed, lengths, package, reverse, rows, table

sys.path.insert(0, str(EXAMPLES))

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import spark_batch
from pyspark.errors import PythonException
from pyspark.sql import SparkSession


@pytest.fixture
def spark(monkeypatch):
    """Makes a Spark whose workers find a package."""
    made = []
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)

    def start(place, master="local[2]"):
        path = f"{place}{os.pathsep}{EXAMPLES}"
        builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
        made.append(builder.config("spark.executorEnv.PYTHONPATH", path).getOrCreate())
        made[0].sparkContext.setLogLevel("OFF")
        return made[0]

    yield start
    made[0].stop()


def test_rows_are_reversed_and_bad_ones_set_aside(spark, tmp_path):
    source = table(lengths(3000, 60))
    bad = [None, [], [1.0, None], [float("nan")], [2.0, float("-inf")]]
    bad = pa.table({"id": list("abcde"), "x": pa.array(bad, source.schema.field("x").type)})
    pq.write_table(pa.concat_tables([source, bad]), tmp_path / "in.parquet", row_group_size=200)
    made = spark(package(tmp_path / "whole", library=True))
    given = made.read.parquet(str(tmp_path / "in.parquet")).repartition(6)
    spark_batch.infer(given, reverse(), tmp_path / "out", batch=7)
    found = rows(tmp_path / "out")
    reasons = ["no sequence", "has no elements"] + 3 * ["is not finite"]
    assert [found[i] for i in "abcde"] == reasons
    assert_reversed(tmp_path / "out", source, reasons=5)


def test_a_worker_without_the_library_is_named(spark, tmp_path):
    pq.write_table(table(lengths(10, 5)), tmp_path / "in.parquet")
    made = spark(package(tmp_path / "hollow", library=False))
    given = made.read.parquet(str(tmp_path / "in.parquet"))
    with pytest.raises(PythonException, match=r"process \d+: no RevSeq.*no library of the provider"):
        spark_batch.infer(given, reverse(), tmp_path / "out")


def processes():
    """The parent and the command line of each process below this one."""
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        found[int(entry.name)] = (parent, line)

    def is_below(pid):
        while pid in found and pid != os.getpid():
            pid = found[pid][0]
        return pid == os.getpid()

    return {pid: it for pid, it in found.items() if is_below(pid)}


def kill_one(words, output):
    """Ends a process with these words in its command line once a part of the rows is written."""
    for _ in range(1200):
        time.sleep(0.1)
        if not list(output.glob("rows.partial/**/part-*")):
            continue
        found = processes()
        for pid, (parent, line) in found.items():
            # Workers are forks of a daemon; the tasks of the daemon itself are none.
            is_worker = "daemon" not in words or words in found.get(parent, (0, ""))[1]
            if words in line and is_worker:
                os.kill(pid, signal.SIGKILL)
                return
    raise AssertionError(f"no process of {words}, or no rows: {processes()}")


def infer_and_kill(spark, tmp_path, master, words):
    """Infers many rows, and ends a process in the middle."""
    source = table(lengths(20000, 60))
    pq.write_table(source, tmp_path / "in.parquet", row_group_size=500)
    made = spark(package(tmp_path / "whole", library=True), master)
    given = made.read.parquet(str(tmp_path / "in.parquet")).repartition(40)
    killer = threading.Thread(target=kill_one, args=(words, tmp_path / "out"))
    killer.start()
    try:
        spark_batch.infer(given, reverse(), tmp_path / "out", batch=7)
    finally:
        killer.join()
    return source


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")
@pytest.mark.parametrize(
    ("master", "words"),
    [
        ("local[2,4]", "pyspark.daemon"),
        ("local-cluster[2,1,1024]", "CoarseGrainedExecutorBackend"),
    ],
)
def test_all_rows_are_there_after_a_process_is_lost(spark, tmp_path, master, words):
    source = infer_and_kill(spark, tmp_path, master, words)
    assert_reversed(tmp_path / "out", source)
    assert not (tmp_path / "out/rows.partial").exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")
def test_a_run_that_ends_early_leaves_no_rows(spark, tmp_path):
    (tmp_path / "out/rows").mkdir(parents=True)
    with pytest.raises(Exception, match="aborting job|Job aborted|failed 1 times"):
        infer_and_kill(spark, tmp_path, "local[2]", "pyspark.daemon")
    assert not (tmp_path / "out/rows").exists()
