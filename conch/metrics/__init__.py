"""What is made of the metrics' names for others: rules for Prometheus, dashboards for Grafana."""
