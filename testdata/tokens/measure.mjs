// Compares the gateway's estimate, one token for every four bytes of JSON text,
// with what real tokenizers make of the files named on the command line.
import fs from "node:fs";
import { encode as o200k } from "gpt-tokenizer/encoding/o200k_base";
import { encode as cl100k } from "gpt-tokenizer/encoding/cl100k_base";
import llama3 from "llama3-tokenizer-js";

for (const file of process.argv.slice(2)) {
  const text = fs.readFileSync(file, "utf8").slice(0, 150000);
  const estimate = Math.ceil((Buffer.byteLength(JSON.stringify(text)) - 2) / 4);
  const counts = { o200k: o200k(text).length, cl100k: cl100k(text).length, llama3: llama3.encode(text, { bos: false, eos: false }).length };
  const errors = Object.entries(counts).map(([name, n]) => `${name} ${n} (${((estimate / n - 1) * 100).toFixed(0)} %)`);
  console.log(`${file}: estimate ${estimate}; ${errors.join(", ")}`);
}
