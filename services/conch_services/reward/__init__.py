"""The reward consumer: format, execution and goal of every act."""
