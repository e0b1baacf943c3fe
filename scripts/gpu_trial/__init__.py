"""make gpu-trial: what a card can do with the trainer, in the minutes of a rented hour."""
