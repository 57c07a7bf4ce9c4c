"""Files <-> values: a module for each data set and each file format; pyarrow is used here and nowhere else."""
