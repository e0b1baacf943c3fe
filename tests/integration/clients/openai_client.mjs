// OpenAI's npm client, unmodified: what it gets from a service, as one line of JSON.
import OpenAI from "openai";
import { VERSION } from "openai/version";

const [baseURL, apiKey, text] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const asked = { model: "tts-1", voice: "alloy", input: text };
const found = { version: VERSION, lengths: {} };

for (const response_format of ["mp3", "opus", "aac", "flac", "wav", "pcm"]) {
  const answer = await client.audio.speech.create({ ...asked, response_format });
  found.lengths[response_format] = (await answer.arrayBuffer()).byteLength;
}

const streamed = await client.audio.speech.create({ ...asked, response_format: "pcm" });
found.streamed = 0;
for await (const piece of streamed.body) found.streamed += piece.length;

const events = await client.audio.speech.create({
  ...asked, model: "gpt-4o-mini-tts-2025-12-15", response_format: "pcm", stream_format: "sse",
});
found.events = (await events.text()).split("\n\n").filter(Boolean).map((event) => JSON.parse(event.slice("data: ".length)).type);

found.models = [];
for await (const model of client.models.list()) found.models.push(model.id);
found.model = (await client.models.retrieve("tts-1-1106")).id;

async function refusal(options, key = apiKey) {
  try {
    await new OpenAI({ baseURL, apiKey: key, maxRetries: 0 }).audio.speech.create({ ...asked, ...options });
  } catch (error) {
    return [error.constructor.name, error.status, error.code, error.param];
  }
  return null;
}
found.refusals = [
  await refusal({ voice: "aloy" }), await refusal({ model: "whisper-1" }), await refusal({ speed: 9 }), await refusal({}, "vox_wrong"),
];
console.log(JSON.stringify(found));
