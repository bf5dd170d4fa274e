"""What a run leaves behind: files, figures, tables."""
