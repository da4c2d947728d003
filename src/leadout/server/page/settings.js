// What the user chose: kept in this browser, given to each request.

import { $ } from "./dom.js";

const NAME = "leadout.settings";
const NUMBERS = ["temperature", "top_p", "top_k", "min_p", "max_tokens", "seed"];

function stored() {
  try {
    return JSON.parse(localStorage.getItem(NAME)) ?? {};
  } catch {
    return {};
  }
}

/** The system prompt; "" is none. */
export function systemPrompt() {
  return stored().system ?? "";
}

/** Fields of a request; what is left open has the server's defaults. */
export function fields() {
  const { system, ...chosen } = stored();
  return chosen;
}

/** Fill the dialog, and keep what is changed in it. */
export function begin() {
  const form = $("settings-form");
  const fill = () => {
    const chosen = stored();
    for (const input of form.elements) {
      if (input.type === "checkbox") input.checked = Boolean(chosen[input.name]);
      else if (input.name) input.value = chosen[input.name] ?? "";
    }
  };
  form.addEventListener("input", () => {
    const chosen = {};
    for (const input of form.elements) {
      if (!input.name) continue;
      if (input.type === "checkbox") {
        if (input.checked) chosen[input.name] = "with_prompt";
      } else if (input.value !== "" && input.checkValidity()) {
        chosen[input.name] = NUMBERS.includes(input.name) ? Number(input.value) : input.value;
      }
    }
    localStorage.setItem(NAME, JSON.stringify(chosen));
  });
  $("defaults").addEventListener("click", () => {
    localStorage.removeItem(NAME);
    fill();
  });
  $("open-settings").addEventListener("click", () => {
    fill();
    $("settings").showModal();
  });
}
