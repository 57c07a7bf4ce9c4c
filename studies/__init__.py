"""Studies of questions, which measure quality and not speed: python -m studies NAME. Not part of the wheel."""
