// Elements, and the few things that several parts of the page do with them.

/** The element with that id. */
export const $ = (id) => document.getElementById(id);

/** An element with attributes and children; text becomes text nodes, never markup. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Say it to those who cannot see it. */
export function say(text) {
  $("spoken").textContent = text;
}

/** Show what went wrong above everything; "" takes it away. */
export function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

/** Copy text, and say so on the button for a moment. */
export async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed";
  }
  setTimeout(() => (button.textContent = "Copy"), 1500);
}

/** Let the user keep a JSON file. */
export function save(value, name) {
  const address = URL.createObjectURL(new Blob([JSON.stringify(value, null, 2)], { type: "application/json" }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** A number with so many digits after the point; a dash where there is none. */
export function number(value, digits = 1) {
  return Number.isFinite(value) ? value.toFixed(digits) : "–";
}
