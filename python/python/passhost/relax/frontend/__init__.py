"""Ways to make Relax modules of something else."""
