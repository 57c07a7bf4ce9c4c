"""Reports of runs: tables in the paper's layout, as Markdown and as one page of HTML."""
