// What is around the views: tabs, theme, models, the key.

import { models, onKeyNeeded } from "./api.js";
import * as compare from "./compare.js";
import * as conversation from "./conversation.js";
import { $, element, notice } from "./dom.js";
import * as load from "./load.js";
import * as settings from "./settings.js";

const TABS = ["chat", "compare", "load"];

function show(name) {
  for (const each of TABS) {
    const isShown = each === name;
    $(`view-${each}`).hidden = !isShown;
    $(`tab-${each}`).setAttribute("aria-selected", String(isShown));
    $(`tab-${each}`).tabIndex = isShown ? 0 : -1;
  }
  history.replaceState(null, "", name === "chat" ? "/" : `#${name}`);
}

function beginTabs() {
  for (const [i, name] of TABS.entries()) {
    $(`tab-${name}`).addEventListener("click", () => show(name));
    $(`tab-${name}`).addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = TABS[(i + step + TABS.length) % TABS.length];
      show(next);
      $(`tab-${next}`).focus();
    });
  }
  const asked = location.hash.slice(1);
  show(TABS.includes(asked) ? asked : "chat");
}

function beginTheme() {
  const kept = localStorage.getItem("leadout.theme");
  if (kept) document.documentElement.dataset.theme = kept;
  $("theme").addEventListener("click", () => {
    const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.dataset.theme ?? (isDark ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    localStorage.setItem("leadout.theme", next);
  });
}

let asking = null; // one question at a time, whoever asks

function askForKey(wasWrong) {
  asking ??= new Promise((resolve) => {
    $("key-h").textContent = wasWrong ? "That key is not known here" : "This server asks for a key";
    $("key-value").value = "";
    $("key").showModal();
    $("key-form").addEventListener("submit", () => resolve($("key-value").value.trim()), { once: true });
  }).finally(() => (asking = null));
  return asking;
}

async function beginModels() {
  try {
    const found = await models();
    $("model").replaceChildren(...found.map(({ id }) => element("option", { value: id }, id)));
    notice("");
  } catch (error) {
    notice(`The server cannot be reached: ${error.message}`);
    setTimeout(beginModels, 3000);
  }
}

onKeyNeeded(askForKey);
$("key").addEventListener("cancel", (event) => event.preventDefault());
beginTabs();
beginTheme();
settings.begin();
conversation.begin();
compare.begin();
load.begin();
await beginModels();
