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

FORKS = (
    "The colours were red, blue, red, green, red, blue, red, black, red, blue, red,",
    "He likes tea and she likes coffee. He likes dogs and she likes cats. He likes",
)
"""Texts whose next token is open and was seen before with several continuations: lookups draft, and err."""
