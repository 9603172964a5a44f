"""Other methods, each with the interface of `patchad.detector.Detector`."""
