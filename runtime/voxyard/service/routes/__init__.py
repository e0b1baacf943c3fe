"""HTTP endpoints, their schemas and the OpenAPI description."""
