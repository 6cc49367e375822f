"""`stream-apple demo --loop`: a site that asks `serve`, and whose impressions and late outcomes come back as examples.

session.py   a run: the cluster, the commands `run`, `join` and `serve`, and the site
site.py      the site: asks for an answer, publishes the impression, and later the click, if there is one
asking.py    a question to `serve` over HTTP
relay.py     keeps the offsets that transactions commit, which the cluster forgets
judging.py   how good the answers were, once it is known what came of them
state.py     how a run stands at one moment, and its result
looks.py     that, as a picture, as a line and as a summary
"""
