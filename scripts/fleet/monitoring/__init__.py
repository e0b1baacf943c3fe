"""What watches the hosts: Prometheus, Alertmanager, Grafana."""
