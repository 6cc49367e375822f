"""`stream-apple demo --loop`: a site that asks `serve`, and whose impressions and late outcomes come back as examples.

loop_session.py  a run: the cluster, the commands `run`, `join` and `serve`, and the site
site.py          the site: asks for an answer, publishes the impression, and later the click, if there is one
asking.py        a question to `serve` over HTTP
relay.py         keeps the offsets that transactions commit, which the cluster forgets
judging.py       the losses of the answers, once their outcomes are known
loop_report.py   the state of a run at one moment, and its result
looks.py         shows them as a picture, a line and a summary
"""
