"""The public functions of al_ray, which notebooks, programs and the commands call."""
