"""What the servers of several applications share: tokens and addresses."""
