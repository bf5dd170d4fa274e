"""Fitting posteriors: `civi.fit`, pilots, independent runs, saving and loading, diagnosis, and NUTS."""
