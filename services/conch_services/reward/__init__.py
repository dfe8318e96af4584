"""The reward consumer: format, execution and goal of every act, and how it fares by the principles."""
