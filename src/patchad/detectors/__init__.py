"""PatchAD and every comparison method behind one interface."""
