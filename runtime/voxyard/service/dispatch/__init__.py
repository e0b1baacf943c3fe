"""Dispatch of documents: the thread between the store and the worker pool."""
