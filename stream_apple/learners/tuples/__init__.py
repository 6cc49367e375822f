"""Logistic regression on selected tuples of attributes: sALR and hsALR (Zaidi, Webb, Carman, Petitjean).

An attribute is a category, such as a color, or a number, which becomes an interval. A tuple is a set of `order`
attributes, and its features are the products of one base feature of each. The model is linear in these features. It
counts and learns in one pass; the ends of epochs select the tuples that say most about the label.

    options.py    what a user can set
    cuts.py       where the intervals of numbers begin: quantiles, or cuts of minimal description length
    model.py      the arrays that kernels work on, and the table of features
    expansion.py  kernel: which features an example has
    learning.py   kernel: the row loop, which scores an example and then learns it
    selection.py  which tuples are kept
    display.py    what is shown of a model
    learner.py    `TupleLearner`, the learner of `learners/port.py`

    learner = TupleLearner(TupleOptions(order=2, selection="mi", selection_share=0.6))
    scores = Scores.empty(rows)
    learner.learn(batch, 0, rows, scores)   # `batch` needs the column `attributes`
    learner.end_epoch()                     # selects, if 1,000 examples were learned
    learner.score_rows(test, 0, len(test.labels), scores_of_test)
"""
