// Runs ONNX models on onnxruntime-web in Node, for `cargo xtask test runtimes`; tests/runtimes.rs has
// the form of the lines that it reads and writes. The first argument is the folder with the package.
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(`${process.argv[2]}/`));
const ort = require("onnxruntime-web/wasm");
ort.env.wasm.numThreads = 1;
ort.env.logLevel = "fatal";

const ARRAYS = {
  bool: Uint8Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array,
  int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array,
  float16: Uint16Array, float32: Float32Array, float64: Float64Array,
};

function tensor({ name, type, shape, bytes }) {
  const Elements = ARRAYS[type];
  if (!Elements) throw new Error(`no tensors of ${type}`);
  const data = new Elements(Uint8Array.from(Buffer.from(bytes, "hex")).buffer);
  return [name, new ort.Tensor(type, data, shape)];
}

function value({ type, dims, data }) {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("hex");
  return { type, shape: dims, bytes };
}

async function run({ model, inputs }) {
  const session = await ort.InferenceSession.create(await readFile(model));
  try {
    const given = Object.fromEntries(inputs.map(tensor));
    const outputs = await session.run(given);
    return { outputs: session.outputNames.map((name) => value(outputs[name])) };
  } finally {
    await session.release();
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await run(JSON.parse(line)).catch((error) => ({ refused: error.message ?? `${error}` }));
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
