"""al_ray beside Splink and dedupe: tables, a program for each tool, and the scorer. Run by python -m studies."""
