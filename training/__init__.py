"""How the pretrained weights are made. Not a part of the package."""
