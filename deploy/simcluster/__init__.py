"""The simulated cluster: a real Slurm whose nodes live on simulated hosts, labelled as such."""
