// The official Node SDK against a gateway: only base URL and key are set.
import OpenAI from "openai";

const client = new OpenAI();
const messages = [{ role: "user", content: "hello" }];
let failures = 0;

function check(name, ok) {
  console.log((ok ? "ok   " : "FAIL ") + name);
  if (!ok) failures++;
}

async function errorOf(promise) {
  try {
    await promise;
  } catch (e) {
    return e;
  }
}

let answer = await client.chat.completions.create({ model: "mete", messages });
check("asks", answer.choices[0].message.content !== "" && answer.usage.completion_tokens > 0);

let text = "";
let usage;
for await (const chunk of await client.chat.completions.create({ model: "mete", messages, stream: true, stream_options: { include_usage: true } })) {
  text += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage ?? usage;
}
check("streams", text !== "");
check("gets usage when it asks", usage?.completion_tokens > 0);

const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } } }];
answer = await client.chat.completions.create({ model: "mete", messages: [{ role: "user", content: "use the tool" }], tools });
check("calls tools", answer.choices[0].message.tool_calls[0].function.name === "weather");

const models = [];
for await (const m of client.models.list()) models.push(m.id);
check("lists models", models.join() === "mete,mete-thinking");

let e = await errorOf(client.chat.completions.create({ model: "nope", messages }));
check("unknown model", e instanceof OpenAI.NotFoundError && e.code === "model_not_found");
e = await errorOf(new OpenAI({ apiKey: "sk-other" }).chat.completions.create({ model: "mete", messages }));
check("bad key", e instanceof OpenAI.AuthenticationError && e.code === "invalid_api_key");
e = await errorOf(client.chat.completions.create({ model: "mete", messages, temperature: 3 }));
check("bad temperature", e instanceof OpenAI.BadRequestError && e.param === "temperature");

for (const fault of ["cut; at=700", "cut; at=700; how=rst"]) {
  e = await errorOf(
    (async () => {
      for await (const _ of await client.chat.completions.create({ model: "mete", messages, stream: true, sim_fault: fault }));
    })(),
  );
  check("sees a stream that died: " + fault, e !== undefined);
}

process.exit(failures ? 1 : 0);
