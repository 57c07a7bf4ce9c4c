"""An audit that is labelled until an interval is narrow enough."""
