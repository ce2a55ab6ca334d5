#!/bin/bash
# Fine-tuning by several workers under Slurm, one process on each node, from whose variables TensorFlow knows the others.
#
#   sbatch examples/cluster/slurm.sh
#
# Change what is asked for, and the command; /shared is a file system that all nodes have. When a worker or a node fails,
# the job is queued again, and the run goes on where its state was last written.
#SBATCH --job-name=bert
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=1
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail

if ! srun --kill-on-bad-exit=1 keras-bert finetune classify --strategy multi_worker \
  --train /shared/train.tsv --output /shared/my-model; then
  if [ "${SLURM_RESTART_COUNT:-0}" -ge 10 ]; then
    exit 1
  fi
  scontrol requeue "$SLURM_JOB_ID"
fi
