"""The commands: read options, call the public functions, print."""
