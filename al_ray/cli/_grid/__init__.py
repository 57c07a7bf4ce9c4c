"""Parts of the command grid."""
