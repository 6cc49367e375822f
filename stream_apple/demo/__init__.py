"""`stream-apple demo`: a made-up click stream, a cluster inside this process, and a real worker on it."""
