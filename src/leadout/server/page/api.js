// Talking to the server this page came from: the key, JSON, streams, and Prometheus text.

const KEY = "leadout.key";
let askForKey = async () => "";

/** Who is asked for the key when the server wants one. */
export function onKeyNeeded(ask) {
  askForKey = ask;
}

/** A request that comes back as a response, or as an Error with the server's own words. */
export async function request(path, { body, signal } = {}) {
  for (;;) {
    const key = sessionStorage.getItem(KEY);
    const headers = body === undefined ? {} : { "Content-Type": "application/json" };
    if (key) headers.Authorization = `Bearer ${key}`;
    const method = body === undefined ? "GET" : "POST";
    const response = await fetch(path, { method, headers, signal, body: body && JSON.stringify(body) });
    if (response.ok) return response;
    if (response.status === 401) {
      if (sessionStorage.getItem(KEY) === key) sessionStorage.setItem(KEY, await askForKey(key !== null));
      continue;
    }
    const told = await response.json().catch(() => null);
    throw new Error(told?.error?.message ?? `the server answered ${response.status}`);
  }
}

/** The chunks of a chat completion, as they come. */
export async function* chat(body, signal) {
  const asked = { ...body, stream: true, stream_options: { include_usage: true, include_origins: true } };
  const response = await request("/v1/chat/completions", { body: asked, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let isWhole = false;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.replace(/^data: /, "");
      if (data === "[DONE]") {
        isWhole = true;
        continue;
      }
      const chunk = JSON.parse(data);
      if (chunk.error) throw new Error(chunk.error.message);
      yield chunk;
    }
  }
  if (!isWhole) throw new Error("the connection ended before the answer did");
}

/** All models' names. */
export async function models() {
  return (await (await request("/v1/models")).json()).data;
}

/** `/metrics` as a list of {name, labels, value}. */
export async function metrics() {
  const text = await (await request("/metrics")).text();
  const samples = [];
  for (const line of text.split("\n")) {
    const found = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!found) continue;
    const labels = {};
    for (const [, name, value] of (found[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      labels[name] = value.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
    }
    samples.push({ name: found[1], labels, value: Number(found[3]) });
  }
  return samples;
}

/** The sum of the samples of that name and model. */
export function total(samples, name, model) {
  let sum = 0;
  for (const each of samples) {
    if (each.name === name && each.labels.model === model) sum += each.value;
  }
  return sum;
}
