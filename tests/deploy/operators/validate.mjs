// Standard input: [[module, resource], ...]. Standard output: for each, what its validator says, or null.
import { readFileSync } from "node:fs";

const answers = [];
for (const [module, resource] of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    const kinds = await import(module);
    new kinds[resource.kind](resource).validate();
    answers.push(null);
  } catch (error) {
    answers.push(error.message);
  }
}
process.stdout.write(JSON.stringify(answers));
