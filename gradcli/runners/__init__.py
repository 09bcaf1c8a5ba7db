"""Where chunks are worked on: `run(work, chunks) -> iterator of results, in the order of the chunks`.

`local` runs on the cores of this machine; others ship the work elsewhere and keep the same contract and bits.
"""
