"""`leadout prove`: is speculation really lossless, here, with these files? Measured, never assumed.

Four parts: greedy ids, seeded text, the law of unseeded draws, and the widths at which logits keep
their bits.
"""
