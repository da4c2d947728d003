"""Models behind one seam. Only this package imports llama.cpp bindings, torch or transformers."""
