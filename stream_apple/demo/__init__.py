"""`stream-apple demo`: a made-up click stream, a cluster inside this process, and a real worker on it.

session.py       a run, from the cluster's start to the count of its answers
clicks.py        the examples: visits with clicks that depend on pairs and triples of features
traffic.py       the same without an end and in real time, for `stream-apple generate`
cluster.py       librdkafka's in-process cluster, which the worker reaches over a socket like any other
worker.py        `stream-apple run` as a child process, with a configuration file and a log of its own
parent_death_signal.py   how that process ends when its parent does, even if the parent is killed
scrape.py        what the worker's /metrics and /readyz say
predictions.py   a reader of the predictions topic that counts which examples were answered
paced_feed.py    sends the examples, never further ahead of the answers than the cluster can hold
state.py         how a run stands at one moment, and its result
screen.py        the two ways of showing that: a live picture, or lines
plot.py          curves in braille characters
viewer.py        the person who looks at the worker's status page
"""
