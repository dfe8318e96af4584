"""The whole run measured: real runs at full speed, and a limit for what a cycle costs beside a fixed workload."""
