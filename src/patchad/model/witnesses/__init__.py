"""Sources of evidence about a window, one file each."""
