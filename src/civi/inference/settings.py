"""All settings of a fit except its target and seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from civi.errors import SettingError, require, unknown
from civi.family import Architecture
from civi.inference.pilot import PILOTS, NoPilot, Pilot
from civi.parallel.team import check_divides
from civi.problem import ProblemSettings
from civi.problem.architecture import Autoencoding
from civi.problem.target.base import check_batch
from civi.settings import Choice, Setting, check_settings, describe, listing, names, override, self_checking
from civi.solver import CompositionalSolver, Method, PathwiseSolver
from civi.tracker import Pool
from civi.update import PerGroup

GROUPS = ("family", "problem", "pilot")


@self_checking
@dataclass(frozen=True)
class Settings:
    """What is fitted and how: the family, the use of the data, the pilot and the solver."""

    family: Annotated[Architecture, "The family that is fitted."]
    solver: Annotated[Any, "The solver that trains it."]
    problem: Annotated[ProblemSettings, "How the problem uses its data."] = field(default_factory=ProblemSettings)
    pilot: Annotated[Pilot, Choice(PILOTS), "Cheap approximation that sets the initial location and scale."] = field(
        default_factory=NoPilot
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if pool := self._pool():
            pool.check_batches(self.problem.batch is not None)

    @classmethod
    def of(cls, method: Method, **others: Any) -> Settings:
        """Settings with the family and the solver of a method, and other settings by name."""
        return cls(method.family, method.solver, **others)

    def described(self) -> dict[str, Any]:
        """All settings as JSON values, under the names that `changed` takes."""
        every = describe(self)
        return {**every.pop("solver"), **every}

    def listing(self) -> list[Setting]:
        """Every setting with its name, type, value and meaning. Those of the solver come first, without a prefix."""
        rows = listing(self)
        of_solver = [
            row._replace(name=row.name.removeprefix("solver.")) for row in rows if row.name.startswith("solver.")
        ]
        return of_solver + [row for row in rows if not row.name.startswith("solver.")]

    def changed(self, steps: int | None, assignments: Sequence[str]) -> Settings:
        """A copy with each name=value applied.

        Args:
            steps: number of training steps; None leaves it unchanged.
            assignments: texts name=value. Settings of the solver have no prefix, all others have that of their group
                (family, problem or pilot). samples.inner without samples.stages replaces the stages.
        """
        known = [*names(self.solver), *GROUPS]
        of_groups: list[str] = []
        of_solver: list[str] = []
        for text in assignments:
            path, equals, _ = text.partition("=")
            first = path.split(".")[0].strip()
            if equals and first and first not in known:
                raise unknown("setting", path.strip(), [row.name for row in self.listing()])
            (of_groups if first in GROUPS else of_solver).append(text)
        of_solver += [] if steps is None else [f"steps={steps}"]
        given = {text.partition("=")[0].strip() for text in of_solver}
        if "samples.inner" in given and "samples.stages" not in given:
            of_solver.append("samples.stages=none")
        return override(replace(self, solver=override(self.solver, of_solver)), of_groups)

    def _pool(self) -> Pool | None:
        return self.solver.pool if isinstance(self.solver, CompositionalSolver) else None

    def outer_samples(self) -> int:
        """Number of outer samples in use at a time: the size of a chunk, if the solver has a pool with chunks."""
        pool = self._pool()
        return self.solver.samples.outer if pool is None or pool.chunk is None else pool.chunk

    def check(self, source: Any) -> None:
        """Reject sample sizes and a pilot that do not fit this source (a target, or the data of an autoencoder)."""
        self._check_groups()
        if not isinstance(self.family, Autoencoding):
            self.problem.check_posterior()
            return check_batch(source, self.problem.batch)
        solver, batch, outer = self.solver, self.problem.batch, self.outer_samples()
        trains_decoder = not isinstance(solver, PathwiseSolver) or solver.objective.trains_decoder
        require(trains_decoder, "an autoencoder trains a decoder, which this objective cannot: choose another solver")
        if batch is None:
            raise SettingError("an autoencoder needs a batch of data in each step: set problem.batch")
        require(batch <= source.rows, f"problem.batch ({batch}) is larger than the data ({source.rows} rows)")
        numbers = f"samples.outer ({outer}) must be problem.batch ({batch}) or a multiple of it"
        require(outer % batch == 0, f"an autoencoder has outer samples for every data point: {numbers}")
        sketched = isinstance(solver, CompositionalSolver) and solver.sketch.form != "none"
        message = f"a sketch selects data points: samples.outer ({outer}) must then equal problem.batch ({batch})"
        require(outer == batch or not sketched, message)
        none = isinstance(self.pilot, NoPilot)
        require(none, "a pilot needs a single posterior, but an autoencoder has one per data point: set pilot=none")
        return None

    def _check_groups(self) -> None:
        """Reject values for parameter groups that the family does not have, such as a decoder without autoencoder."""
        other = ("decoder",) if isinstance(self.family, Autoencoding) else ()
        particles = ("particles",) if self.family.mixing == "particles" else ()
        groups = ("mixing", "scale", *particles, *other)
        update = getattr(self.solver, "update", None)
        for name, value in vars(update).items() if update is not None else ():
            if isinstance(value, PerGroup):
                others = [group for group in value if group not in groups]
                message = (
                    f"update.{name} has a value for '{', '.join(others)}', but the parameter groups of this task are "
                )
                require(not others, message + ", ".join(groups))

    def check_devices(self, devices: Mapping[str, int]) -> None:
        """Reject sample sizes that the devices along their axis do not divide evenly."""
        samples = self.solver.samples
        check_divides({"outer": self.outer_samples(), "inner": max(samples.stages or (samples.inner,))}, devices)
