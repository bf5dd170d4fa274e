"""Runs on several devices and processes: the device mesh, the team of processes, and the watchdog."""
