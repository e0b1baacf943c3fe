"""Durable documents: store, queue, dispatcher, audio files, webhooks."""
