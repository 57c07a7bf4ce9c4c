"""The policy of a run: which labels are asked for and when, when workers are needed, and when it ends; without Ray."""
