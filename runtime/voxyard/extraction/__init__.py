"""Text extraction from documents (TXT, Markdown, HTML, EPUB, PDF, DOCX) in a bounded child process."""
