"""The learner as a library: estimators for scikit-learn and River, and models from files and from Kafka, in a notebook.

Public is only what `stream_apple` and `stream_apple.river` export.
"""
