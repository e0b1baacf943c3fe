"""Text extraction from documents (TXT, PDF, DOCX) in a bounded child process."""
