"""Local pages that show what a training does: for this machine alone, and only while its process runs."""
