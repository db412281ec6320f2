"""Runs a model over a table of sequences with Spark, RevSeqExecutionProvider in every worker.

    pip install pyspark==4.3.0 "pandas<3" pyarrow onnxruntime numpy onnxruntime_ep_revseq-*.whl
    python spark_batch.py model.onnx INPUT OUTPUT    # or by spark-submit, on a cluster

INPUT is Parquet with the columns `id` and `x`, a list of numbers. The model takes a batch [N, T]
of float32 and its lengths [N], and gives a batch [N, T], of which each row is cut to its length.
OUTPUT/rows has `id` and `y`, OUTPUT/rejected `id` and `reason` of the rows that were set aside. There is
no OUTPUT/rows until all of it is written.
"""

import argparse
import os
import pathlib
import shutil

import numpy as np
from pyspark.ml.functions import predict_batch_udf
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, FloatType, StructField, StructType


def predictor(model: bytes, threads: int):
    """Creates each worker's session: neither a session nor its options can be pickled."""

    def make():
        from onnxruntime_ep_revseq import worker

        session = worker.create_session(model, threads=threads)
        names = [value.name for value in session.get_inputs()]

        def predict(xs: np.ndarray, lengths: np.ndarray) -> list[dict[str, np.ndarray]]:
            padded = np.zeros((len(xs), lengths.max()), np.float32)
            for row, x in zip(padded, xs):
                row[: len(x)] = x
            y = session.run(None, dict(zip(names, (padded, lengths.astype(np.int64)))))[0]
            return [{"y": row[:length]} for row, length in zip(y, lengths)]

        return predict

    return make


def infer(table: DataFrame, model: bytes, output: pathlib.Path, batch: int = 64) -> None:
    """Writes OUTPUT; its `rows` last, and as a whole."""
    written, partial = output / "rows", output / "rows.partial"
    shutil.rmtree(written, ignore_errors=True)
    threads = int(table.sparkSession.conf.get("spark.task.cpus", "1"))
    predict = predict_batch_udf(
        predictor(model, threads),
        return_type=StructType([StructField("y", ArrayType(FloatType()))]),
        batch_size=batch,
        # Rows of their own lengths, not of one shape.
        input_tensor_shapes=[None, None],
    )
    finite = F.forall("x", lambda x: x.isNotNull() & ~F.isnan(x) & (F.abs(x) != float("inf")))
    reason = (
        F.when(F.col("x").isNull(), "no sequence")
        .when(F.size("x") == 0, "has no elements")
        .when(~finite, "is not finite")
    )
    marked = table.select("id", F.col("x").cast("array<float>").alias("x")).withColumn("reason", reason)
    rejected = marked.where(F.col("reason").isNotNull()).select("id", "reason")
    rejected.write.mode("overwrite").parquet(str(output / "rejected"))
    # Of like length together: then little is padding.
    rows = marked.where(F.col("reason").isNull()).sortWithinPartitions(F.size("x"))
    rows = rows.select("id", predict("x", F.size("x")).alias("of")).select("id", "of.y")
    rows.write.mode("overwrite").parquet(str(partial))
    partial.rename(written)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("input")
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--batch", type=int, default=64, help="rows in a run of the model")
    given = parser.parse_args()
    builder = SparkSession.builder.appName("revseq")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        # Not by spark-submit, which names a master. Spark's default repeats no task of a lost worker.
        builder = builder.master("local[*,4]")
    spark = builder.getOrCreate()
    infer(spark.read.parquet(given.input), given.model.read_bytes(), given.output, given.batch)


if __name__ == "__main__":
    main()
