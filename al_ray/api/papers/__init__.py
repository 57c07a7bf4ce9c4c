"""Functions of further papers, which their commands call; `import al_ray` does not offer them."""
