"""`hashed`: a linear learner with a fixed number of weights, which features share by hash.

It follows W. Cohen's lecture "Efficient logistic regression with stochastic gradient descent" and Weinberger, Dasgupta,
Langford, Smola, Attenberg 2009, "Feature hashing for large scale multitask learning":

- *Hashing.* Each feature's key is hashed to one of 2^bits slots. Features of equal hash share a weight. No keys are
  stored, so memory does not depend on the number of features (`features.py`).
- *Lazy regularisation.* L2 and L1 regularisation shrink all weights in each step. An example costs only the time for
  its own features, because the shrinkage of the other weights is computed when they are needed (`regularisation.py`).
- *Multitask hashing.* With `personalise`, each user has weights of its own in addition to the shared ones: an example's
  features are learned once for all users, and once combined with its user (`features.py`).
- *Steps* are those of plain gradient descent, or adaptive and normalised (`update.py`).

`table.py` has the state, `rows.py` the loop over examples, `learner.py` the learner as `learners/port.py` specifies it.
To learn a batch in one epoch, and to score others:

    learner = HashedLearner(HashedOptions(bits=20, l2=1e-6))
    learner.learn(batch, 0, len(batch.labels), Scores.empty(len(batch.labels)))
    scores = Scores.empty(len(others.labels))
    learner.score_rows(others, 0, len(others.labels), scores)  # `scores.predictions`: log-odds of label 1

With `personalise="user"`, the features of the namespace `user` name an example's user: `batch.spaces` has the value
`space_key("user")` for them. `learner.weights()` returns the weights, the constant's last.
"""
