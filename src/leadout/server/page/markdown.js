// Markdown to elements. Text only ever becomes text nodes, so nothing in an answer can become markup.
// Every text node keeps its place in the source, so that each token can be shown with its origin.

import { element } from "./dom.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$/;
const HEADING = /^(#{1,6})\s+(.*)$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?/;
const INLINE = /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)|\*\*(?=\S)([\s\S]*?\S)\*\*|\*(?=[^\s*])([^*]*?[^\s*])\*|(?<!\w)_(?=\S)([^_]*?\S)_(?!\w)|\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)/g;

/**
 * Elements for `source`.
 * @param {string} source
 * @param {{start: number, end: number, origin: string}[]} tokens in order, covering the source
 */
export function render(source, tokens) {
  return new Renderer(source, tokens).blocks(lines(source, 0));
}

function lines(text, offset) {
  const found = [];
  for (const line of text.split("\n")) {
    found.push({ text: line, at: offset });
    offset += line.length + 1;
  }
  return found;
}

class Renderer {
  constructor(source, tokens) {
    this.source = source;
    this.tokens = tokens;
  }

  /** Lines to blocks; each line knows where it stands in the source. */
  blocks(all) {
    const made = document.createDocumentFragment();
    for (let i = 0; i < all.length; ) {
      const line = all[i].text;
      if (!line.trim()) i += 1;
      else if (FENCE.test(line)) i = this.fence(all, i, made);
      else if (RULE.test(line)) (i += 1), made.append(element("hr"));
      else if (HEADING.test(line)) made.append(this.heading(all[i])), (i += 1);
      else if (QUOTE.test(line)) i = this.quote(all, i, made);
      else if (ITEM.test(line)) i = this.list(all, i, made);
      else i = this.paragraph(all, i, made);
    }
    return made;
  }

  fence(all, i, made) {
    const [, mark, language] = FENCE.exec(all[i].text);
    const code = element("code");
    const end = new RegExp(`^ {0,3}${mark[0]}{${mark.length},}\\s*$`);
    const begin = i + 1;
    for (i = begin; i < all.length && !end.test(all[i].text); i += 1);
    if (i > begin) {
      for (const line of all.slice(begin, i)) {
        const has_next = line !== all[i - 1];
        this.text(code, line.at, line.at + line.text.length + (has_next ? 1 : 0));
      }
    }
    const copy = element("button", { class: "quiet", type: "button", "data-copy": "" }, "Copy");
    const head = element("header", {}, element("span", {}, language || "text"), copy);
    made.append(element("div", { class: "code" }, head, element("pre", { tabindex: "0" }, code)));
    return i + 1;
  }

  heading(line) {
    const [, marks, text] = HEADING.exec(line.text);
    const made = element(marks.length < 3 ? "h3" : "h4");
    const at = line.at + line.text.length - text.length;
    this.inline(made, at, at + text.length);
    return made;
  }

  quote(all, i, made) {
    const inside = [];
    for (; i < all.length && QUOTE.test(all[i].text); i += 1) {
      const n = QUOTE.exec(all[i].text)[0].length;
      inside.push({ text: all[i].text.slice(n), at: all[i].at + n });
    }
    made.append(element("blockquote", {}, this.blocks(inside)));
    return i;
  }

  list(all, i, made) {
    const [, indent, mark] = ITEM.exec(all[i].text);
    const isNumbered = /\d/.test(mark);
    const list = element(isNumbered ? "ol" : "ul", isNumbered ? { start: parseInt(mark, 10) } : {});
    while (i < all.length) {
      const found = ITEM.exec(all[i].text);
      if (!found || found[1].length > indent.length + 1 || /\d/.test(found[2]) !== isNumbered) break;
      const n = found[0].length;
      const inside = [{ text: all[i].text.slice(n), at: all[i].at + n }];
      for (i += 1; i < all.length; i += 1) {
        const { text, at } = all[i];
        const isInside = /^\s{2,}/.test(text) && text.search(/\S/) > indent.length;
        const isGap = !text.trim() && i + 1 < all.length && /^\s{2,}\S/.test(all[i + 1].text);
        if (!isInside && !isGap) break;
        const cut = Math.min(n, Math.max(0, text.search(/\S/)));
        inside.push({ text: text.slice(cut), at: at + cut });
      }
      const item = element("li");
      if (inside.length === 1) this.inline(item, inside[0].at, inside[0].at + inside[0].text.length);
      else item.append(this.blocks(inside));
      list.append(item);
      while (i < all.length && !all[i].text.trim() && ITEM.test(all[i + 1]?.text ?? "")) i += 1;
    }
    made.append(list);
    return i;
  }

  paragraph(all, i, made) {
    const paragraph = element("p");
    for (let isFirst = true; i < all.length; i += 1, isFirst = false) {
      const { text, at } = all[i];
      const begins = [FENCE, HEADING, RULE, QUOTE, ITEM].some((kind) => kind.test(text));
      if (!text.trim() || (begins && !isFirst)) break;
      if (!isFirst) paragraph.append(element("br"));
      this.inline(paragraph, at, at + text.length);
    }
    made.append(paragraph);
    return i;
  }

  /** What stands between two places of the source, with emphasis, code and links. */
  inline(parent, start, end) {
    let at = start;
    for (const found of this.source.slice(start, end).matchAll(INLINE)) {
      const begin = start + found.index;
      this.text(parent, at, begin);
      at = begin + found[0].length;
      const [, ticks, code, strong, starred, scored, label, address] = found;
      if (ticks) this.text(into(parent, "code"), begin + ticks.length, begin + ticks.length + code.length);
      else if (strong) this.inline(into(parent, "strong"), begin + 2, begin + 2 + strong.length);
      else if (label) {
        const link = into(parent, "a", { href: address, rel: "noreferrer noopener", target: "_blank" });
        this.text(link, begin + 1, begin + 1 + label.length);
      } else this.inline(into(parent, "em"), begin + 1, begin + 1 + (starred ?? scored).length);
    }
    this.text(parent, at, end);
  }

  /** Text as it is, one span for each token in it. */
  text(parent, start, end) {
    for (let i = this.tokenAt(start); i < this.tokens.length && start < end; i += 1) {
      const token = this.tokens[i];
      const stop = Math.min(end, token.end);
      if (stop <= start) continue;
      const kind = `t ${token.origin}${start === token.start ? " edge" : ""}`;
      parent.append(element("span", { class: kind }, this.source.slice(start, stop)));
      start = stop;
    }
    if (start < end) parent.append(this.source.slice(start, end));
  }

  tokenAt(place) {
    let [low, high] = [0, this.tokens.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tokens[middle].end <= place) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function into(parent, name, attributes = {}) {
  const made = element(name, attributes);
  parent.append(made);
  return made;
}
