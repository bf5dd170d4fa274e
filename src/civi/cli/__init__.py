"""The command line `civi`."""
