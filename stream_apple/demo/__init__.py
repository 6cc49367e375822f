"""`stream-apple demo`: a made-up click stream, a cluster inside this process, and a real worker on it.

clicks.py       the examples: visits with clicks that depend on pairs and triples of features
traffic.py      the same without an end and in real time, for `stream-apple generate`
cluster.py      librdkafka's in-process cluster, which the worker reaches over a socket like any other
worker.py       `stream-apple run` as a child process, with a configuration file and a log of its own
tethered.py     ... that ends when we end, even if we are killed
scrape.py       what its /metrics say
predictions.py  a reader of the predictions topic that counts which examples were answered
feed.py         sends the examples, never further ahead of the answers than the cluster can hold
show.py         from first to last step, told to a screen
visitor.py      the person who looks at the worker's status page
screen.py       the two ways of showing it: a live picture, or lines
plot.py         curves in braille characters
"""
