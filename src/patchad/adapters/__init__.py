"""PatchAD in other people's frameworks: one small file each, which imports its framework; nothing is imported here."""
