"""Durable documents: their store, and the queue that accepts them."""
