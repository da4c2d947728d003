"""Makes a file of other quantised weights: `python -m leadout.models.binding_quantise SOURCE TARGET KIND N`.

N is the number of threads. A process of its own, since the library prints as it likes and cannot be
interrupted.
"""

from __future__ import annotations

import sys

import llama_cpp

FILE_TYPES = {
    "q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0,
    "q4_1": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_1,
    "q5_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q5_0,
    "q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0,
    "f16": llama_cpp.LLAMA_FTYPE_MOSTLY_F16,
}


def quantise(source: str, target: str, kind: str, n_threads: int = 0) -> int:
    """The library's return code: 0 where `target` was written.

    Parameters
    ----------
    source, target : str
        GGUF files.
    kind : str
        One of `FILE_TYPES`.
    n_threads : int
        0 takes all cores.
    """
    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype = FILE_TYPES[kind]
    options.allow_requantize = True
    options.nthread = n_threads
    return int(llama_cpp.llama_model_quantize(source.encode(), target.encode(), options))


if __name__ == "__main__":
    sys.exit(quantise(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
