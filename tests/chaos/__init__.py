"""Faults on real processes, with a ledger of every element: ``python -m chaos --help``.

Each round starts a dispatcher, workers and readers as processes, breaks something at a random moment, lets the readers
finish, and compares what they logged with the dataset. A round fails when an element is missing and was not reported
lost, when an element came twice, when a reader hangs, or when the fault did not happen.
"""
