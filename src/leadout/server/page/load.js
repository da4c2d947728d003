// What the server does now: rates from the differences of its counters, once a second while this is looked at.

import { metrics, total } from "./api.js";
import { line } from "./chart.js";
import { $, element, number } from "./dom.js";

const CARDS = [
  { name: "rate", title: "Tokens per second", digits: 1, unit: "" },
  { name: "plain", title: "Plain rate, predicted", digits: 1, unit: " tok/s" },
  { name: "perPass", title: "Tokens per pass", digits: 2, unit: "" },
  { name: "drafted", title: "Draft length", digits: 2, unit: " tokens a pass" },
  { name: "kept", title: "Drafts kept", digits: 0, unit: " %" },
  { name: "running", title: "Slots at work", digits: 0, unit: "" },
  { name: "queued", title: "Requests that wait", digits: 0, unit: "" },
  { name: "cache", title: "Cache in use", digits: 0, unit: " %" },
];
const N_KEPT = 120;
let before = null;
let history = [];

/** Look once a second. */
export function begin() {
  setInterval(look, 1000);
}

async function look() {
  if (document.hidden || $("view-load").hidden) return;
  const model = $("model").value;
  let samples;
  try {
    samples = await metrics();
  } catch (error) {
    $("l-model").textContent = error.message;
    return;
  }
  const now = read(samples, model);
  if (before?.model === model) {
    history.push(between(before, now));
    history = history.slice(-N_KEPT);
  } else history = [];
  before = now;
  $("l-model").textContent = `${model} · ${now.requests} requests answered since the server began`;
  showCards(now);
  showPlaces(samples, model);
}

function read(samples, model) {
  const of = (name) => total(samples, `leadout_${name}`, model);
  const requests = samples.filter((each) => each.name === "leadout_requests_total" && each.labels.route.startsWith("/v1/") && each.labels.route !== "/v1/models");
  return {
    model,
    at: performance.now(),
    tokens: of("completion_tokens_total"),
    passes: of("target_passes_total"),
    drafted: of("drafted_tokens_total"),
    accepted: of("accepted_tokens_total"),
    plain: of("plain_tokens_per_second"),
    running: of("requests_running"),
    queued: of("requests_queued"),
    slots: of("slots"),
    cache: (100 * of("kv_used_tokens")) / of("kv_capacity_tokens"),
    requests: requests.reduce((sum, each) => sum + each.value, 0),
  };
}

/** What happened between two looks; shares of nothing are no numbers. */
function between(a, b) {
  const [seconds, passes, drafted] = [(b.at - a.at) / 1000, b.passes - a.passes, b.drafted - a.drafted];
  return {
    rate: (b.tokens - a.tokens) / seconds,
    plain: b.plain || NaN,
    perPass: passes ? (b.tokens - a.tokens) / passes : NaN,
    drafted: passes ? drafted / passes : NaN,
    kept: drafted ? (100 * (b.accepted - a.accepted)) / drafted : NaN,
    running: b.running,
    queued: b.queued,
    cache: b.cache,
  };
}

function showCards(now) {
  const cards = CARDS.map(({ name, title, digits, unit }) => {
    const values = history.map((each) => each[name]).filter((value) => Number.isFinite(value));
    const latest = name in now && name !== "drafted" ? now[name] : values.at(-1);
    const shown = name === "plain" ? now.plain || NaN : latest;
    const beside = name === "running" ? ` of ${now.slots}` : unit;
    const value = element("p", { class: "value" }, number(shown, digits), element("small", {}, Number.isFinite(shown) ? beside : ""));
    const chart = line(values, `${title}, the latest ${values.length} seconds with a value`, N_KEPT / 2);
    return element("article", { class: "card" }, element("h3", {}, title), value, chart);
  });
  $("cards").replaceChildren(...cards);
}

function showPlaces(samples, model) {
  const places = new Map();
  for (const { name, labels, value } of samples) {
    if (labels.model !== model || !/^leadout_(drafted|accepted)_at_total$/.test(name)) continue;
    const place = places.get(Number(labels.position)) ?? { drafted: 0, accepted: 0 };
    place[name.includes("drafted") ? "drafted" : "accepted"] += value;
    places.set(Number(labels.position), place);
  }
  const rows = [...places].sort(([a], [b]) => a - b).flatMap(([place, { drafted, accepted }]) => {
    const share = accepted / drafted;
    const label = `Place ${place}`;
    const meter = element("meter", { min: 0, max: 1, value: share, "aria-label": `${label}: share kept` });
    return [element("span", {}, label), meter, element("span", {}, `${number(share * 100, 0)} % of ${drafted}`)];
  });
  $("places").replaceChildren(
    rows.length ? element("div", { class: "places" }, ...rows) : element("p", { class: "hint" }, "Nothing has been drafted yet."),
  );
}
