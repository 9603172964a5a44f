"""Sources: where the rows of `patchad watch` come from, one file each."""
