"""What a scene of a ranking showed at a level."""

from typing import Any

from pixel_gather.features.rank.measured_scene import MeasuredScene


def measured_scene(value: float, **more: Any) -> MeasuredScene:
    """Return a scene that shows all of its area. Its level is the coarsest of one overview and the image."""
    usual: dict[str, Any] = {
        "error": 0.25,
        "level": 0,
        "n_pixels": 4,
        "valid": 1.0,
        "clear": 1.0,
        "valid_range": (1.0, 1.0),
        "clear_range": (1.0, 1.0),
        "remarks": None,
        "etags": ("1",),
        "levels": (0, None),
        "level_nbytes": (1.0, 4.0),
        "factor": 2.0,
    }
    return MeasuredScene(value=value, **(usual | more))
