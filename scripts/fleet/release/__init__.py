"""What a host should have: files, services, images and artefacts under one id."""
