"""The policy of a run: which labels are requested and when, when workers are needed, when it ends; without Ray."""
