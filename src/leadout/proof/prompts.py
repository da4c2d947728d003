"""Prompts of the proof: raw texts of several kinds, so that drafts are taken, half taken and refused."""

TEXTS = (
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return fibonacci(n - 1) + fibonacci(n - 2)\n\n\n"
    "def factorial(n):\n    if n < 2:\n        return",
    "Rain fell on the harbour all night. In the morning the old captain",
    "name: Ada, age: 36, city: London\nname: Alan, age: 41, city: Wilmslow\nname: Grace, age: 85, city:",
    "Question: A train travels 60 km in 40 minutes. How far does it travel in 2 hours?\nAnswer:",
    "English: good morning 🌅\n中文: 早上好 🌅\nEnglish: thank you 🙏\n中文:",
    "\tif (x > 0) {\n\t\treturn x;\n\t}\n\tif (x < 0) {\n\t\treturn -x;\n\t}\n\tif (x",
)

_PIECES = (
    "def mean(items):\n\ttotal = 0\n\tfor item in items:\n\t\ttotal += item\n\treturn total / len(items)\n",
    "今天天气很好，我们去公园散步吧。明天可能会下雨。",
    "東京は日本の首都です。京都は古い都です。",
    "오늘은 날씨가 좋습니다. 내일은 비가 올 것입니다. ",
    "Weather: ☀️ 24 °C, tomorrow 🌧️ 17 °C; family: 👨‍👩‍👧, flags: 🇯🇵🇧🇷, thumbs: 👍🏽 ",
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich", "days": 3}}\n</tool_call>\n',
    "<think>\nThe user wants a sum: 17 + 25 = 42.\n</think>\nThe answer is 42.\n",
    "<|im_start|>user\nName three colours.<|im_end|>\n<|im_start|>assistant\nRed, green",
    "SELECT name,\n       COUNT(*)\n  FROM orders\n WHERE price >= 10.50\n GROUP BY name;\n",
    "Le café naïve d’Émile coûte 3,50 € — c’est déjà ça. Ça va? ",
    "| id | name |\n|---:|:-----|\n|  1 | Ada  |\n|  2 | Alan |\n",
    "if (a[i] != b[j]) {\r\n    return (x << 3) ^ 0xFF;\r\n}\r\n",
    "    indented\n        more\n\n\n\ttabbed\n   odd\n",
    "مرحبا بالعالم. كيف حالك اليوم؟ ",
    "Привет, мир! Как дела сегодня? ",
)


def mixed_texts(n: int) -> tuple[str, ...]:
    """`n` prompts of scripts, emoji, tabs and markers, several kinds in each and cut off at any place."""
    texts = []
    for i in range(n):
        parts = [_PIECES[(i * step + step) % len(_PIECES)] for step in (1, 4, 7)]
        last = parts[-1]
        texts.append("".join(parts[:-1]) + last[: 1 + (7 * i) % len(last)])
    return tuple(texts)


FORKS = (
    "The colours were red, blue, red, green, red, blue, red, black, red, blue, red,",
    "He likes tea and she likes coffee. He likes dogs and she likes cats. He likes",
)
"""Texts whose next token is open and was seen before with several continuations: lookups draft, and err."""
