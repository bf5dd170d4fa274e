"""Counts the programs that XLA compiles in this process."""

import jax


class Compilations:
    """The number of programs compiled since it was made."""

    def __init__(self):
        self.count = 0
        jax.monitoring.register_event_duration_secs_listener(self._seen)

    def _seen(self, event: str, duration: float, **details):
        self.count += "backend_compile" in event


COMPILATIONS = Compilations()
