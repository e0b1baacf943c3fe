"""Images on the operator's machine: build, pin, push, save, SBOM."""
