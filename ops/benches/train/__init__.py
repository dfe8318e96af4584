"""What training costs and what decides on an adapter, in parts: `ops/bench train --part NAME`."""
