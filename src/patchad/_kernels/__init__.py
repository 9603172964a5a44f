"""Fast arithmetic for the net on CPU and GPU, with torch as the fallback."""
