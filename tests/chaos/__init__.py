"""Tests of faults on real processes, with a ledger of every element: ``python -m chaos --help``.

Each round starts a dispatcher, workers and readers as processes, injects a fault at a random moment, lets the readers
finish, and compares the readers' ledgers with the dataset. A round fails if an element is missing and was not reported
lost, if an element was read twice, if a reader hangs, or if the fault did not happen. A round of an exactly-once job also fails
if any element is missing, or if the order of the batches differs from an epoch without faults. The cases of any order compare sets of batches.
"""
