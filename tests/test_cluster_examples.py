"""The manifests in examples/cluster/ say the same of one cluster everywhere, and run a command that exists."""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
import tensorflow as tf

from keras_bert.cli import main
from keras_bert.training.distribution import STRATEGIES

from .support.data import ROOT

CLUSTER = ROOT / "examples" / "cluster"
COMMAND = "keras-bert finetune classify --strategy multi_worker --train /shared/train.tsv --output /shared/my-model"


def read(name):
    return pytest.importorskip("yaml").safe_load((CLUSTER / name).read_text("utf-8"))


def executable(path, script):
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def run(command, tmp_path, **variables):
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def jobset():
    """The workers' Job, their pod and its only container."""
    (workers,) = read("jobset.yaml")["spec"]["replicatedJobs"]
    pod = workers["template"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    return workers, pod, container


def check_volume(pod, container):
    names = {volume["name"]: volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"]}
    assert {mount["mountPath"]: names[mount["name"]] for mount in container["volumeMounts"]} == {"/shared": "shared"}


def test_jobset():
    workers, pod, container = jobset()
    job = workers["template"]["spec"]
    (workers_in_script,) = [int(each["value"]) for each in container["env"] if each["name"] == "WORKERS"]
    assert job["parallelism"] == job["completions"] == workers_in_script > 1
    assert (job["completionMode"], workers["replicas"]) == ("Indexed", 1)
    assert (job["backoffLimit"], pod["restartPolicy"]) == (0, "Never")  # of one worker; all of them:
    assert read("jobset.yaml")["spec"]["failurePolicy"]["maxRestarts"] > 0
    check_volume(pod, container)


@pytest.mark.parametrize("index", [0, 3])
def test_tf_config_of_the_jobset(index, tmp_path, monkeypatch):
    workers, _, container = jobset()
    executable(tmp_path / "keras-bert", 'printf "%s\\n" "$TF_CONFIG" "$0" "$@"')
    given = {each["name"]: each["value"] for each in container["env"]}
    command = [*container["command"], *container["args"]]
    result = run(command, tmp_path, **given, JOB_COMPLETION_INDEX=str(index))
    assert result.returncode == 0, result.stderr
    tf_config, program, *arguments = result.stdout.splitlines()
    assert [Path(program).name, *arguments] == COMMAND.split()

    # A pod's name is made of its JobSet's, its replicated job's, its Job's number and its own.
    name = read("jobset.yaml")["metadata"]["name"]
    (port,) = [each["containerPort"] for each in container["ports"]]
    count = workers["template"]["spec"]["completions"]
    hosts = [f"{name}-{workers['name']}-0-{i}.{name}:{port}" for i in range(count)]
    assert json.loads(tf_config)["cluster"] == {"worker": hosts}
    monkeypatch.setenv("TF_CONFIG", tf_config)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    assert resolver.cluster_spec().as_dict() == {"worker": hosts}
    assert (resolver.task_type, resolver.task_id) == ("worker", index)


def test_tf_config_needs_an_index(tmp_path):
    _, _, container = jobset()
    executable(tmp_path / "keras-bert", "exit 0")
    result = run([*container["command"], *container["args"]], tmp_path, WORKERS="2")
    assert result.returncode != 0
    assert "JOB_COMPLETION_INDEX" in result.stderr


def test_kubeflow():
    spec = read("kubeflow.yaml")["spec"]
    (kind,) = spec["tfReplicaSpecs"]
    workers = spec["tfReplicaSpecs"][kind]
    assert (kind, workers["restartPolicy"]) == ("Worker", "OnFailure")
    assert workers["replicas"] == jobset()[0]["template"]["spec"]["completions"]
    assert spec["runPolicy"]["backoffLimit"] >= workers["replicas"]
    pod = workers["template"]["spec"]
    (container,) = pod["containers"]
    # The operator's own names: it would put the hosts' port into TF_CONFIG by default, but not the one that is open.
    assert container["name"] == "tensorflow"
    assert container["ports"] == [{"name": "tfjob-port", "containerPort": 2222}]
    command = " ".join([*container["command"], *container["args"]]).replace("=", " ")
    assert command == COMMAND
    check_volume(pod, container)


@pytest.mark.parametrize(
    ("fails", "restarts", "code", "is_requeued"), [("0", "0", 0, False), ("1", "0", 0, True), ("1", "10", 1, False)]
)
def test_slurm(fails, restarts, code, is_requeued, tmp_path):
    script = CLUSTER / "slurm.sh"
    subprocess.run(["bash", "-n", script], check=True)
    executable(tmp_path / "srun", 'echo srun "$@"; exit $FAILS')
    executable(tmp_path / "scontrol", 'echo scontrol "$@"')
    result = run(["bash", script], tmp_path, FAILS=fails, SLURM_JOB_ID="7", SLURM_RESTART_COUNT=restarts)
    assert result.returncode == code
    first, *others = result.stdout.splitlines()
    assert first == f"srun --kill-on-bad-exit=1 {COMMAND}"
    assert others == ["scontrol requeue 7"] * is_requeued
    asked = dict(shlex.split(line)[1].split("=") for line in script.read_text().splitlines() if " --nodes=" in line)
    assert int(asked["--nodes"]) > 1


def test_the_command_exists():
    program, *words = COMMAND.split()
    command = main
    while words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    assert (program, command.name) == ("keras-bert", "classify")
    names = {name for parameter in command.params for name in parameter.opts}
    given = dict(zip(words[::2], words[1::2], strict=True))
    assert set(given) - names <= {"--strategy"}
    assert {"--train", "--output"} <= set(given)
    assert given["--strategy"] in STRATEGIES
