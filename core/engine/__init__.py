"""The engine: plan -> run -> commit over a paged KV store. Importing this package does not import torch.

scheduler.py  who runs, which blocks are taken, shared, copied, swapped (no tensors)
plan.py       what passes between the phases
batch.py      a plan as packed tensors          store.py    the keys and values themselves
bridge.py     the way into transformers         sampling.py the next token
dense.py      the proof: no cache, no blocks    engine.py   plan, run, commit, and the trace
session.py    a worker thread for a page, and the cap on all pools together
"""
