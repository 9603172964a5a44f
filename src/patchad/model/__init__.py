"""The net, its training, and the witnesses that its score is made of."""
