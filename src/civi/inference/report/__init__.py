"""The report of a posterior: what it contains, its file, and its sections as one HTML page."""
