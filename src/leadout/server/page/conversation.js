// The chat: messages, one running answer at most, and its gauges.

import { metrics, total } from "./api.js";
import { Answer, follow } from "./answer.js";
import { drafts } from "./chart.js";
import { $, copy, element, number, save, say } from "./dom.js";
import { fields, systemPrompt } from "./settings.js";

const messages = []; // {role, content}
let running = null; // an AbortController while an answer streams

/** Make the chat's controls work. */
export function begin() {
  const prompt = $("prompt");
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = prompt.value;
    if (running || !text.trim()) return;
    prompt.value = "";
    ask(text);
  });
  prompt.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    $("ask").requestSubmit();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && running && !document.querySelector("dialog[open]")) stop();
  });
  $("stop").addEventListener("click", stop);
  $("clear").addEventListener("click", clear);
  $("tint").checked = localStorage.getItem("leadout.tint") !== "off";
  $("tint").addEventListener("change", tint);
  tint();
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-copy]");
    if (button) copy(button.closest(".code").querySelector("code").textContent, button);
  });
  setInterval(showSlots, 2000);
}

function tint() {
  localStorage.setItem("leadout.tint", $("tint").checked ? "on" : "off");
  $("log").classList.toggle("tinted", $("tint").checked);
  $("legend").classList.toggle("tinted", $("tint").checked);
}

function stop() {
  running?.abort();
}

function clear() {
  stop();
  messages.length = 0;
  for (const each of $("log").querySelectorAll(".message")) each.remove();
  $("empty").hidden = false;
  $("prompt").focus();
}

function ask(text) {
  $("empty").hidden = true;
  messages.push({ role: "user", content: text });
  $("log").append(element("div", { class: "message user" }, text));
  reply();
}

async function reply() {
  const place = element("div", { class: "answer" });
  const message = element("article", { class: "message", "aria-label": "Answer", "aria-busy": "true" }, place);
  for (const each of $("log").querySelectorAll("[data-retry]")) each.remove();
  $("log").append(message);
  message.scrollIntoView({ block: "end" });
  const answer = new Answer();
  const system = systemPrompt();
  const first = system ? [{ role: "system", content: system }] : [];
  const body = { model: $("model").value, messages: [...first, ...messages], ...fields() };
  const mine = (running = new AbortController());
  toggle(true);
  let failure = "";
  try {
    await follow(body, answer, place, mine.signal, () => showGauges(answer));
  } catch (error) {
    failure = mine.signal.aborted ? "" : error.message;
  }
  if (!message.isConnected) return toggle(false, mine);
  message.removeAttribute("aria-busy");
  if (answer.text) messages.push({ role: "assistant", content: answer.text });
  finish(message, answer, failure, mine.signal.aborted);
  toggle(false, mine);
}

function finish(message, answer, failure, isStopped) {
  if (failure) message.append(element("p", { class: "error", role: "alert" }, failure));
  const tools = element("div", { class: "tools" });
  const button = (label, act, attributes = {}) => {
    const made = element("button", { class: "quiet", type: "button", ...attributes }, label);
    made.addEventListener("click", () => act(made));
    tools.append(made);
  };
  if (answer.text) button("Copy", (made) => copy(answer.text, made));
  button("Retry", () => retry(message, answer), { "data-retry": "" });
  if (answer.receipt) button("Receipt", () => save(answer.receipt, "receipt.json"));
  tools.append(element("span", { class: "hint" }, told(answer, isStopped)));
  message.append(tools);
  message.scrollIntoView({ block: "end" });
  say(failure || (isStopped ? "Stopped." : `Answered in ${answer.nTokens} tokens.`));
}

function told(answer, isStopped) {
  const ending = isStopped ? "stopped · " : answer.reason === "length" ? "cut at the length limit · " : "";
  const first = answer.firstAt ? `first token after ${Math.round(answer.firstAt - answer.askedAt)} ms` : "no token";
  return `${ending}${answer.nTokens} tokens · ${first}`;
}

function retry(message, answer) {
  if (running) return;
  if (answer.text) messages.pop();
  message.remove();
  reply();
  $("prompt").focus();
}

function toggle(isRunning, mine) {
  if (!isRunning && running === mine) running = null;
  const isBusy = running !== null;
  const hadFocus = document.activeElement === $("stop");
  $("send").hidden = isBusy;
  $("stop").hidden = !isBusy;
  if (hadFocus && !isBusy) $("prompt").focus();
}

function showGauges(answer) {
  $("g-speed").replaceChildren(number(answer.rate), element("small", {}, " tok/s"));
  $("g-plain").replaceChildren(`${number(answer.gain, 2)}×`, element("small", {}, " estimate"));
  $("g-plain").title = answer.usage?.speculation.basis ?? "plain passes as measured on this machine";
  $("g-kept").replaceChildren(number(answer.kept * 100, 0), element("small", {}, " %"));
  $("g-draft").replaceChildren(drafts(answer.rounds));
  for (const each of $("legend").querySelectorAll("[data-origin]")) {
    each.textContent = answer.counts[each.dataset.origin];
  }
  const scroll = $("scroll");
  if (scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 120) scroll.scrollTop = scroll.scrollHeight;
}

async function showSlots() {
  if (document.hidden || $("view-chat").hidden || document.querySelector("dialog[open]")) return;
  try {
    const [samples, model] = [await metrics(), $("model").value];
    const of = (name) => total(samples, `leadout_${name}`, model);
    const queued = of("requests_queued");
    const waiting = queued ? ` · ${queued} wait` : "";
    $("g-slots").replaceChildren(`${of("requests_running")} / ${of("slots")}`, element("small", {}, waiting));
  } catch {
    $("g-slots").textContent = "–";
  }
}
