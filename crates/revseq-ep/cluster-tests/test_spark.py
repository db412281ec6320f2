"""The Spark example on a Spark of this machine, whose workers are processes of their own.

The library is in REVSEQ_EP_LIBRARY; Spark needs Java.
"""

import os
import sys

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

    def start(place):
        path = f"{place}{os.pathsep}{EXAMPLES}"
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
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
