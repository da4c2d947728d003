"""Texts to continue. Each has its own words, so that nothing remembered from an earlier one helps.

Plain text without a chat template: every engine takes it, and no template can differ between two servers.
"""

from __future__ import annotations

import random

_WORDS = [
    "amber",
    "basil",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "heron",
    "iris",
    "jade",
    "kelp",
    "lotus",
    "maple",
    "nectar",
    "opal",
    "pearl",
    "quartz",
    "raven",
    "sage",
    "tulip",
    "umber",
    "violet",
    "willow",
    "yarrow",
    "zephyr",
    "anchor",
    "beacon",
    "canyon",
    "drift",
    "falcon",
    "garnet",
    "harbor",
]


def repetitive(number: int, seed: int) -> str:
    """A text that is easy to go on with, for a lookup and for a draft model alike.

    Parameters
    ----------
    number : int
        Which one; kinds alternate.
    seed : int
        Of this probe.
    """
    chosen = random.Random(f"{seed}/{number}")
    words = chosen.sample(_WORDS, 12)
    if number % 2 == 0:
        rows = "".join(f"- {word}: {chosen.randint(100, 999)} kg\n" for word in words)
        return f"Original list:\n{rows}\nExact copy of the list:\n- {words[0]}:"
    methods = "".join(
        f"    def get_{word}(self):\n        return self.{word}\n\n" for word in words[: len(words) // 2]
    )
    return f"class {words[-1].title()}:\n{methods}    def get_{words[6]}(self):\n        return self."


def free_choice(number: int, seed: int) -> str:
    """A text that goes on with one of two words, three fixed ones, and one of the two again.

    Long sentences repeat but for these words: any drafter drafts there, lookups with long matches too, and
    the law after them has room to be wrong in. The sentence ends with a full stop.
    """
    chosen = random.Random(f"{seed}/free/{number}")
    one, other = (("heads", "tails"), ("red", "blue"))[number % 2]
    first, second, third = chosen.sample(_WORDS, 3)
    sentence = (
        f"Every evening at nine the old keeper of the {first} tower walks slowly across the wide {second} "
        f"square, takes the same two worn pieces from his left coat pocket, throws them one after the other "
        f"into the cold {third} air and reads them aloud: first"
    )
    pairs = [(a, b) for a in (one, other) for b in (one, other)] * 2
    chosen.shuffle(pairs)
    return " ".join(f"{sentence} {a} and then {b}." for a, b in pairs) + f" {sentence}"


def long_text(n_tokens: int, seed: int) -> str:
    """About `n_tokens` tokens of varied prose before a list to copy."""
    chosen = random.Random(f"{seed}/long")
    sentences: list[str] = []
    while len(sentences) * 9 < n_tokens:
        first, second, third = chosen.sample(_WORDS, 3)
        sentences.append(f"The {first} was moved near the {second} and {third}.")
    return " ".join(sentences) + "\n\n" + repetitive(0, chosen.randrange(2**30))
