"""The learner as a library: estimators for scikit-learn and River, and models from files and from Kafka, in a notebook.

    featurizer.py   what a table, a matrix or a map becomes: rows of a batch, with the codec's keys
    cells.py        what one cell becomes, and the memory of names
    online.py       one learner with its epochs, by count; it is pickled
    parameters.py   the options of a learner as parameters of an estimator
    estimators.py   scikit-learn's interface
    river_models.py  River's
    one_row.py      one example at a time
    example_sets.py  what `fit` learns: a set, not a stream
    kafka_models.py  a model from Kafka, at any offset
    models.py       models that learned elsewhere

What is public is what `stream_apple` and `stream_apple.river` export.
"""
