"""What would stop a worker, found before it does: by `stream-apple check`, and by a worker before it fences anybody."""
