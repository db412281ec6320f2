// Runs a model on onnxruntime-web, in Node and in a browser; tests/runtimes/lib.rs has the form of inputs and
// outputs.
const ARRAYS = {
  bool: Uint8Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array,
  int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array,
  float16: Uint16Array, float32: Float32Array, float64: Float64Array,
};

function tensor(ort, { name, type, shape, bytes }) {
  const Elements = ARRAYS[type];
  if (!Elements) throw new Error(`no tensors of ${type}`);
  const pairs = bytes.match(/../g) ?? [];
  const data = new Elements(Uint8Array.from(pairs, (pair) => parseInt(pair, 16)).buffer);
  return [name, new ort.Tensor(type, data, shape)];
}

function value({ type, dims, data }) {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const pairs = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0"));
  return { type, shape: dims, bytes: pairs.join("") };
}

/** Returns the outputs, or why the runtime refuses the model. */
export async function run(ort, options, model, inputs) {
  let session;
  try {
    session = await ort.InferenceSession.create(model, options);
    const outputs = await session.run(Object.fromEntries(inputs.map((input) => tensor(ort, input))));
    return { outputs: session.outputNames.map((name) => value(outputs[name])) };
  } catch (error) {
    return { refused: error.message ?? `${error}` };
  } finally {
    await session?.release();
  }
}
