// Runs a program of wasm32-wasip1 with all files of this machine: node wasi.mjs PROGRAM ARGUMENT...
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const args = process.argv.slice(2);
const wasi = new WASI({ version: "preview1", args, env: process.env, preopens: { "/": "/" } });
const module = await WebAssembly.compile(await readFile(args[0]));
process.exitCode = wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject()));
