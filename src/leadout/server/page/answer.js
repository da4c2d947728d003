// One answer as it streams: a fold over chunks, and how it is shown.

import { chat } from "./api.js";
import { element } from "./dom.js";
import { render } from "./markdown.js";

/** What has come of an answer so far. */
export class Answer {
  text = "";
  reasoning = "";
  tokens = []; // of the text: {start, end, origin}
  counts = { accepted: 0, corrected: 0, bonus: 0, plain: 0 };
  rounds = []; // {drafted, accepted, emitted, seconds, plain_seconds}
  usage = null;
  receipt = null;
  reason = null;
  firstAt = 0; // when the first and the latest token came, in ms
  latestAt = 0;
  askedAt = performance.now();

  /** Take one chunk of the stream. */
  take(chunk) {
    if (chunk.usage) this.usage = chunk.usage;
    if (chunk.receipt) this.receipt = chunk.receipt;
    const told = chunk.leadout ?? {};
    if (told.rounds) this.rounds.push(...told.rounds);
    for (const token of told.tokens ?? []) this.counts[token.origin] += 1;
    if (told.tokens?.length) {
      this.latestAt = performance.now();
      this.firstAt ||= this.latestAt;
    }
    const [choice] = chunk.choices;
    if (!choice) return;
    this.reason = choice.finish_reason ?? this.reason;
    this.reasoning += choice.delta.reasoning_content ?? "";
    this.grow(choice.delta.content ?? "", told.tokens?.at(-1)?.origin);
    for (const call of choice.delta.tool_calls ?? []) this.grow(call.function.arguments ?? "");
  }

  grow(text, origin) {
    if (!text) return;
    const start = this.text.length;
    this.text += text;
    this.tokens.push({ start, end: this.text.length, origin: origin ?? this.tokens.at(-1)?.origin ?? "plain" });
  }

  get nTokens() {
    const { accepted, corrected, bonus, plain } = this.counts;
    return accepted + corrected + bonus + plain;
  }

  /** Tokens after the first one per second, as they arrived here. */
  get rate() {
    return this.nTokens > 1 ? ((this.nTokens - 1) * 1000) / (this.latestAt - this.firstAt) : NaN;
  }

  /** Predicted time of plain decoding over the time taken, over the rounds that were predicted. */
  get gain() {
    let [plain, taken] = [0, 0];
    for (const each of this.rounds) {
      if (each.plain_seconds === null) continue;
      plain += each.plain_seconds;
      taken += each.seconds;
    }
    return taken ? plain / taken : NaN;
  }

  /** Share of drafted tokens that stood. */
  get kept() {
    const drafted = this.rounds.reduce((sum, each) => sum + each.drafted, 0);
    return drafted ? this.rounds.reduce((sum, each) => sum + each.accepted, 0) / drafted : NaN;
  }
}

/** Read a stream into `answer`, and show it into `place` at most once a frame. */
export async function follow(body, answer, place, signal, shown = () => {}) {
  let isDue = false;
  const show = () => {
    isDue = false;
    draw(answer, place);
    shown();
  };
  place.classList.add("waiting");
  try {
    for await (const chunk of chat(body, signal)) {
      answer.take(chunk);
      if (!isDue) {
        isDue = true;
        // a page in the background gets no frames, but should not fall behind
        if (document.hidden) setTimeout(show, 200);
        else requestAnimationFrame(show);
      }
    }
  } finally {
    place.classList.remove("waiting");
    show();
  }
}

function draw(answer, place) {
  const text = element("div", { class: "text" }, render(answer.text, answer.tokens));
  const parts = [text];
  if (answer.reasoning) {
    const wasOpen = place.querySelector("details")?.open ?? false;
    const details = element("details", { class: "reasoning" }, element("summary", {}, "Reasoning"), answer.reasoning);
    details.open = wasOpen;
    parts.unshift(details);
  }
  if (answer.text) place.classList.remove("waiting");
  place.replaceChildren(...parts);
}
