"""Release of a host: files, services, images and artefacts under one id."""
