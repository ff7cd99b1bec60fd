"""The peers of ``faults.py``: one module for each library, with the same small interface.

A peer's module has ``TITLE``, ``LIBRARY``, ``SETTING``, ``PACKAGES``, ``MODULES``, ``REFUSED`` and ``opened``. Five parts are optional:

- ``prepared`` writes files.
- ``cleaned`` removes what killed trainers left outside the folder of a run.
- ``serve`` starts a service.
- ``joined`` returns the state for another number of trainers.
- ``BATCH`` is the number of records in a trainer's batch. By default the trainers divide a constant number of records in each step.

These modules know nothing of cases, faults and verdicts.
"""
