"""What leaves a worker."""
