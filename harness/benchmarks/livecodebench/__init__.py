"""LiveCodeBench (Jain et al. 2024, arXiv 2403.07974): its releases, rows and answers."""
