"""Release of a host: rendered files, services, images and artefacts under one id."""
