"""The identity and position of models, and the note about them that is committed with each offset."""
