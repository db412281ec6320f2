// Runs ONNX models on onnxruntime-web, for `cargo xtask test runtimes`; tests/runtimes/lib.rs has the form of
// the lines that it reads and writes.
//
//     node onnxruntime_web.mjs PACKAGES [PROVIDER]
//
// PACKAGES is the folder with the packages. Models run in Node, with WebAssembly, or with an execution provider
// (wasm, webgpu) in headless Chromium.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { run } from "./web.mjs";

const [packages, provider] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${packages}/`));

/** Returns a function that runs a model of a file in this process. */
function inNode() {
  const ort = require("onnxruntime-web/wasm");
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = "fatal";
  return async (model, inputs) => run(ort, {}, await readFile(model), inputs);
}

/** Returns a function that runs a model of a file in a page, which has it from a server of this process. */
async function inChromium() {
  const files = join(packages, "node_modules/onnxruntime-web/dist");
  const types = { mjs: "text/javascript", wasm: "application/wasm", html: "text/html" };
  const served = async (path) => {
    if (path === "/") return "<!doctype html>";
    if (path === "/web.mjs") return readFile(new URL("web.mjs", import.meta.url));
    if (path.startsWith("/model/")) return readFile(decodeURIComponent(path.slice("/model/".length)));
    return readFile(join(files, path));
  };
  const server = createServer(async ({ url }, response) => {
    const body = await served(url).catch(() => undefined);
    const type = url === "/" ? types.html : types[url.split(".").pop()];
    response.writeHead(body ? 200 : 404, type ? { "Content-Type": type } : {}).end(body);
  });
  await new Promise((listens) => server.listen(0, "127.0.0.1", listens));
  const browser = await require("puppeteer-core").launch({
    executablePath: "/usr/bin/chromium",
    // Without a GPU, Vulkan and WebGPU are SwiftShader's.
    args: ["--no-sandbox", "--enable-unsafe-webgpu", "--enable-features=Vulkan", "--use-webgpu-adapter=swiftshader"],
  });
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  const inPage = async (model, inputs, provider) => {
    const ort = await import(provider === "webgpu" ? "/ort.webgpu.min.mjs" : "/ort.wasm.min.mjs");
    const { run } = await import("/web.mjs");
    ort.env.wasm.numThreads = 1;
    ort.env.logLevel = "fatal";
    const bytes = await (await fetch(`/model/${encodeURIComponent(model)}`)).arrayBuffer();
    return run(ort, { executionProviders: [provider] }, new Uint8Array(bytes), inputs);
  };
  return (model, inputs) => page.evaluate(inPage, model, inputs, provider);
}

const runModel = provider ? await inChromium() : inNode();
for await (const line of createInterface({ input: process.stdin })) {
  const { model, inputs } = JSON.parse(line);
  process.stdout.write(`${JSON.stringify(await runModel(model, inputs))}\n`);
}
process.exit();
