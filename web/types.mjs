// Writes src/report.ts, the types of the JSON report, from docs/report.schema.json.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { compile } from "json-schema-to-typescript";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));

// A reference with a description of its own would become a type of its own, a copy under another name.
const schema = JSON.parse(readFileSync(at("../docs/report.schema.json"), "utf8"), (_, value) =>
  typeof value?.$ref === "string" ? { $ref: value.$ref } : value);
schema.title = "Report"; // the name of the outermost type

const types = await compile(schema, "Report", {
  additionalProperties: false, // what the schema does not name may be there, but the page must not use it
  bannerComment: "// Written by types.mjs from docs/report.schema.json.",
  ignoreMinAndMaxItems: true,
});
writeFileSync(at("src/report.ts"), types);
