"""Releases and training runs as files for Kubernetes and Slurm; needs no access to hosts."""
