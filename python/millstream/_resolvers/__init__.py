"""Cluster resolvers: which processes form a cluster, and which of them this process is.

- ``spec``: the jobs and tasks of a cluster
- ``base``: the interface, and the resolvers that need no cluster manager
- ``tf_config``, ``slurm``, ``kubernetes``, ``gce``: one cluster manager each
- ``accelerators``: the accelerators of this machine
- ``http``: requests of JSON with a deadline; ``kube_config``, ``google_token``: who may send them
- ``place``: the place of this process among those that share the data

Refuses to know datasets.
"""
