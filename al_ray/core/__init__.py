"""Pure values and arithmetic: numpy and the standard library only; no file, clock, log, network, torch or Ray."""
