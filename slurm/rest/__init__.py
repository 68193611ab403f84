"""slurmrestd, Slurm's REST service, is asked over TCP, TLS or a unix socket with a JSON web token."""
