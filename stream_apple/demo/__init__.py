"""`stream-apple demo`: a made-up click stream, a cluster inside this process, and a real worker on it.

session.py       a run, from the cluster's start to the count of its answers
demo_run.py      what such a run, and one of the loop, both do
clicks.py        the examples: visits with clicks that depend on pairs and triples of features
traffic.py       the same without an end and in real time, for `stream-apple generate`
cluster.py       librdkafka's in-process cluster, which the worker reaches over a socket like any other
child.py         a command such as `stream-apple run` as a child process: it starts, listens, is ready, and ends
parent_death_signal.py   how that process ends when its parent does, even if the parent is killed
scrape.py        what its metrics say
predictions.py   counts which examples were answered
paced_feed.py    sends the examples, never further ahead of the answers than the cluster can hold
state.py         how a run stands at one moment, and its result
picture.py       that, as a picture and as a line
screen.py        the two ways of showing them: a live picture, or lines
plot.py          curves in braille characters
viewer.py        the person who looks at the worker's status page
loop/            `--loop`: answers are asked for over HTTP, and what is learned is joined from what came of them
"""
