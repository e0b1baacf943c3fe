"""Text-to-speech model on TensorFlow: features, layers, losses, optimizer, Griffin-Lim."""
