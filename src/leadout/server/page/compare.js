// The same prompt and seed with drafts and without: both speeds, and whether the text is the same.

import { Answer, follow } from "./answer.js";
import { $, element, number, say } from "./dom.js";
import { systemPrompt } from "./settings.js";

let running = null;
const asked = new Set();

/** Make the view's controls work. */
export function begin() {
  $("compare").addEventListener("submit", (event) => {
    event.preventDefault();
    if (!running && $("c-prompt").value.trim()) compare();
  });
  $("c-stop").addEventListener("click", () => running?.abort());
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") running?.abort();
  });
}

async function compare() {
  running = new AbortController();
  toggle(true);
  verdict("", "Running with drafts …");
  $("pair").hidden = false;
  for (const side of ["auto", "off"]) {
    for (const part of ["", "-speed", "-note"]) $(`c-${side}${part}`).replaceChildren();
  }
  const system = systemPrompt();
  const body = {
    model: $("model").value,
    messages: [...(system ? [{ role: "system", content: system }] : []), { role: "user", content: $("c-prompt").value }],
    seed: Number($("c-seed").value),
    temperature: Number($("c-temperature").value),
    max_tokens: Number($("c-tokens").value),
  };
  const wasAsked = asked.has(JSON.stringify(body));
  asked.add(JSON.stringify(body));
  try {
    // with drafts first: what a lookup remembers of the plain answer would make its drafts too good
    const drafted = await run("auto", body, wasAsked);
    verdict("", "Running plainly …");
    const plain = await run("off", body, false);
    conclude(drafted, plain);
  } catch (error) {
    verdict("differs", running.signal.aborted ? "Stopped." : error.message);
  }
  running = null;
  toggle(false);
}

async function run(side, body, wasAsked) {
  const answer = new Answer();
  const speed = () => $(`c-${side}-speed`).replaceChildren(`${number(answer.rate)} tok/s`);
  await follow({ ...body, speculation: side }, answer, $(`c-${side}`), running.signal, speed);
  const { drafter, enabled, reason, tokens_per_pass: perPass } = answer.usage.speculation;
  const how = enabled ? `${drafter}, ${number(perPass, 2)} tokens a pass` : reason;
  const again = wasAsked && enabled ? " Asked before on this page: lookups remember earlier answers, so this may be quicker than it was at first." : "";
  $(`c-${side}-note`).textContent = `${answer.nTokens} tokens; ${how}.${again}`;
  return answer;
}

function conclude(drafted, plain) {
  const [a, b] = [said(drafted), said(plain)];
  const at = firstDifference(a, b);
  const ratio = drafted.rate / plain.rate;
  const speed = Number.isFinite(ratio) ? ` ${number(ratio, 2)}× the speed of plain decoding, as it arrived here.` : "";
  if (at < 0) verdict("same", `✓ Identical: ${b.length} bytes, ${plain.nTokens} tokens.${speed}`);
  else verdict("differs", `✗ They differ from byte ${at} on: “${near(a, at)}” with drafts, “${near(b, at)}” plainly.${speed}`);
}

function said(answer) {
  return new TextEncoder().encode(`${answer.reasoning}\u0000${answer.text}`);
}

function firstDifference(a, b) {
  const n = Math.max(a.length, b.length);
  for (let i = 0; i < n; i += 1) if (a[i] !== b[i]) return i;
  return -1;
}

function near(bytes, at) {
  return new TextDecoder().decode(bytes.slice(Math.max(0, at - 12), at + 16)).replaceAll("\u0000", "");
}

function verdict(kind, text) {
  $("verdict").className = `verdict ${kind}`;
  $("verdict").hidden = false;
  $("verdict").replaceChildren(element("span", {}, text));
  if (kind) say(text);
}

function toggle(isRunning) {
  $("c-go").hidden = isRunning;
  $("c-stop").hidden = !isRunning;
}
