"""Audio of documents: files in a directory or a bucket, and the space that they may take."""
