"""Match texts over HTTP by a trained model, on Ray Serve, and keep known texts that change."""
