"""The pages of --help: which options a command shows first, and the text of each page."""
