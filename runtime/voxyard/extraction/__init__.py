"""Text extraction from documents (TXT, Markdown, HTML, EPUB, PDF, DOCX, ODT, RTF, FB2) in a bounded child process."""
