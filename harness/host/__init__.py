"""The trusted side as one object: it owns the engine, the images, the pool and the retries, and it grades."""
