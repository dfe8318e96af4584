"""The reward consumer: scores format, execution and goal of every act, and its conduct by the principles."""
