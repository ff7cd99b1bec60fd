"""Cluster resolvers find what TensorFlow's find in the same environment."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace as Space
from typing import Any

import pytest

pytest.importorskip("tensorflow")

import tensorflow as tf

import millstream as ms
from millstream import resolvers

PACKAGES = ((tf.distribute.cluster_resolver, tf.train.ClusterSpec), (resolvers, resolvers.ClusterSpec))
CLUSTER = {"chief": ["c:1"], "worker": ["a:1", "b:1"], "ps": {1: "p:1", 4: "q:1"}}
CONFIG = {"cluster": CLUSTER, "task": {"type": "worker", "index": 1}, "rpc_layer": "grpc"}


def of_pods(label_selector: str) -> Any:
    names = {"x=1": "ba", "x=2": "c"}[label_selector]
    return Space(items=[Space(metadata=Space(name=name), status=Space(phase="Running", host_ip=name)) for name in names])


def union(package: Any, spec: Any) -> Any:
    one = package.SimpleClusterResolver(spec({"worker": ["a:1"]}), "m:1", "worker", 0, rpc_layer="grpc")
    two = package.SimpleClusterResolver(spec({"worker": {3: "b:1"}, "ps": ["p:1"]}), task_type="ps", task_id=2)
    return package.UnionResolver(one, two, task_type="chief")


#: A resolver of a package with its cluster, and the variables that it reads.
CASES: dict[str, tuple[Callable[[Any, Any], Any], dict[str, str]]] = {
    "simple": (lambda package, spec: package.SimpleClusterResolver(spec(CLUSTER), "m", "worker", 1, "google", {"GPU": 1}, "grpc"), {}),
    "union": (union, {}),
    "TF_CONFIG": (lambda package, _: package.TFConfigClusterResolver(), {"TF_CONFIG": json.dumps(CONFIG)}),
    "TF_CONFIG with arguments": (lambda package, _: package.TFConfigClusterResolver("ps", 4, "mpi", "google"), {"TF_CONFIG": json.dumps(CONFIG)}),
    "no TF_CONFIG": (lambda package, _: package.TFConfigClusterResolver(), {}),
    "session master": (lambda package, _: package.TFConfigClusterResolver(), {"TF_CONFIG": json.dumps({**CONFIG, "session_master": "s"})}),
    "SLURM": (
        lambda package, _: package.SlurmClusterResolver({"ps": 1, "worker": 4}, 99, 4),
        {"PROCID": "3", "STEP_NUM_TASKS": "5", "STEP_NODELIST": "n[1-2],m", "STEP_TASKS_PER_NODE": "2(x2),1"},
    ),
    "SLURM with fixed tasks": (
        lambda package, _: package.SlurmClusterResolver(gpus_per_node=2, tasks_per_node=2, rpc_layer=None),
        {"PROCID": "0", "STEP_NUM_TASKS": "4", "STEP_NODELIST": "n[08-09]"},
    ),
    "Kubernetes": (
        lambda package, _: package.KubernetesClusterResolver({"worker": ["x=1", "x=2"]}, 7, "mpi", Space(list_pod_for_all_namespaces=of_pods)),
        {},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_resolver_finds_what_tensorflow_finds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, variables = CASES[name]
    for variable, value in variables.items():
        monkeypatch.setenv(variable if variable == "TF_CONFIG" else f"SLURM_{variable}", value)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    theirs, ours = (found(made(*package)) for package in PACKAGES)
    assert ours == theirs


def found(resolver: Any) -> list[Any]:
    before = [resolver.task_type, resolver.task_id, resolver.environment, resolver.rpc_layer]
    spec = resolver.cluster_spec()
    seen = [*before, spec.as_dict(), repr(spec), spec.jobs, resolver.task_type, resolver.task_id, resolver.master(), resolver.master(rpc_layer="z")]
    for job in spec.jobs:
        index = spec.task_indices(job)[0]
        seen += [spec.num_tasks(job), spec.job_tasks(job), resolver.master(job, index), resolver.master(job, index, "z")]
    resolver.task_type, resolver.task_id, resolver.rpc_layer = "worker", 3, "y"
    return [*seen, resolver.task_type, resolver.task_id, resolver.rpc_layer]


def test_specs_of_tensorflow_are_converted() -> None:
    theirs, ours = tf.train.ClusterSpec(CLUSTER), resolvers.ClusterSpec(CLUSTER)
    assert resolvers.ClusterSpec(theirs) == ours == resolvers.ClusterSpec(theirs.as_cluster_def())
    assert ours.as_cluster_def() == theirs.as_cluster_def()


def test_resolvers_of_tensorflow_make_contexts() -> None:
    spec = tf.train.ClusterSpec({"chief": ["c:1"], "worker": ["a:1"]})
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, task_type="worker", task_id=0, num_accelerators={"GPU": 2})
    assert ms.InputContext.from_resolver(resolver) == ms.InputContext(2, 1, 4)
