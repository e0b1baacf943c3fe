"""Monitoring of the hosts: Prometheus, Alertmanager, Grafana."""
