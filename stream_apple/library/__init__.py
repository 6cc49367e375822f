"""The learner as a library: estimators for scikit-learn and River, and models from files and from Kafka, in a notebook.

    featurizer.py   from a table, a matrix or a map to rows of a batch, with the codec's keys
    cells.py        from one cell to a feature
    online.py       one learner with its epochs, by count or by time; it can be pickled
    parameters.py   the options of a learner as parameters of an estimator
    estimators.py   scikit-learn's interface
    river_models.py  River's interface
    one_row.py      one example at a time
    example_sets.py  examples as a set, which `fit` learns, not as a stream
    targets.py      labels, weights and classes, checked
    event_times.py  event times and spans of time
    models.py       models that learned elsewhere, from files or from Kafka at any offset

Public is only what `stream_apple` and `stream_apple.river` export.
"""
